// `weights fetch`: a manifest's files, from all who have them.
#include <fmt/format.h>
#include <poll.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_weights.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {
namespace {

struct FetchFlags {
  SwarmFlags swarm;
  std::string manifest, into, model, sha256;
  std::vector<std::string> sources;
  double give_up_s = 60;
};

absl::StatusOr<FetchOptions> AskedOf(FetchFlags flags) {
  if (std::isnan(flags.give_up_s)) return absl::InvalidArgumentError("--give-up: not a number");
  std::vector<SwarmAddress> sources;
  for (const std::string& text : flags.sources) {
    ASSIGN_OR_RETURN(auto source, ParseSwarmAddress(text));
    sources.push_back(source);
  }
  if (flags.swarm.listen.empty()) flags.swarm.listen = AddressToward(sources.front().ip) + ":0";
  auto swarm = OptionsOf(flags.swarm);
  if (!swarm.ok()) return swarm.status();
  FetchOptions options{.swarm = *std::move(swarm),
                       .sources = std::move(sources),
                       .model = std::nullopt,
                       .give_up_after = absl::Seconds(flags.give_up_s)};
  if (!flags.model.empty()) options.model = flags.model;
  if (!flags.swarm.quiet) {
    options.progress = [](const FetchProgress& at) {
      fmt::print(stderr, "{} of {} from {} sources, {:.1f} s\n", Megabytes(at.bytes),
                 Megabytes(at.total), at.connected, absl::ToDoubleSeconds(at.time));
    };
  }
  return options;
}

std::string Document(const Manifest& manifest, const FetchFlags& flags, const FetchReport& report) {
  nlohmann::ordered_json delivered = nlohmann::ordered_json::array();
  for (const MemberBytes& member : report.delivered) {
    delivered.push_back({{"ip", member.ip}, {"bytes", member.bytes}});
  }
  const nlohmann::ordered_json document = {{"schema", kWeightsSchema},
                                           {"name", manifest.name},
                                           {"manifest_sha256", ManifestDigest(manifest)},
                                           {"into", flags.into},
                                           {"bytes", report.bytes},
                                           {"kept_bytes", report.kept_bytes},
                                           {"rejected_bytes", report.rejected_bytes},
                                           {"arrived_s", absl::ToDoubleSeconds(report.arrived)},
                                           {"seconds", absl::ToDoubleSeconds(report.time)},
                                           {"delivered", delivered},
                                           {"banned", report.banned}};
  return document.dump(2) + "\n";
}

void Tell(const Manifest& manifest, const FetchFlags& flags, const FetchReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.time);
  const int64_t fetched = report.bytes - report.kept_bytes;
  fmt::print("{}: {} in {:.2f} s, {:.1f} Mbit/s; SHA-256 of {} files checked\n", flags.into,
             Megabytes(fetched), seconds, static_cast<double>(fetched) * 8e-6 / seconds,
             manifest.files.size());
  if (report.kept_bytes > 0)
    fmt::print("{:<15} {}\n", "already present", Megabytes(report.kept_bytes));
  for (const MemberBytes& member : report.delivered) {
    fmt::print("{:<15} {}\n", member.ip, Megabytes(member.bytes));
  }
  if (report.rejected_bytes > 0) {
    fmt::print("{:<15} {} (hash mismatch)\n", "rejected", Megabytes(report.rejected_bytes));
  }
}

absl::StatusOr<Manifest> ManifestOf(const FetchFlags& flags) {
  auto manifest = ReadManifest(flags.manifest);
  if (!manifest.ok() || flags.sha256.empty()) return manifest;
  if (const std::string digest = ManifestDigest(*manifest); digest != flags.sha256) {
    return absl::InvalidArgumentError(
        fmt::format("{} has SHA-256 {}, wanted is {}", flags.manifest, digest, flags.sha256));
  }
  return manifest;
}

absl::Status FetchFolder(const FetchFlags& flags) {
  const CancelSignal cancel;  // before other threads exist
  ASSIGN_OR_RETURN(auto options, AskedOf(flags));
  ASSIGN_OR_RETURN(auto manifest, ManifestOf(flags));
  ASSIGN_OR_RETURN(auto fetch, Fetch::Start(manifest, flags.into, options));
  pollfd either[] = {{cancel.fd(), POLLIN, 0}, {fetch->done_fd(), POLLIN, 0}};
  if (poll(either, 2, -1) > 0 && either[0].revents != 0) fetch->Cancel();
  ASSIGN_OR_RETURN(const auto report, fetch->Wait());
  if (flags.swarm.json) {
    fmt::print("{}", Document(manifest, flags, report));
  } else {
    Tell(manifest, flags, report);
  }
  return absl::OkStatus();
}

}  // namespace

void AddWeightsFetchCommand(CLI::App& weights, int* exit_status) {
  auto flags = std::make_shared<FetchFlags>();
  CLI::App* fetch = weights.add_subcommand(
      "fetch",
      "Fetch the files of a manifest into DIR; an incomplete fetch stays in DIR.partial and "
      "resumes");
  fetch->footer(
      "Example:\n"
      "  longhaul weights fetch model.manifest --into model --peer 10.0.0.2:7000");
  fetch->add_option("manifest", flags->manifest, "Manifest that `weights share` wrote")->required();
  fetch->add_option("--into", flags->into, "Folder to write; it appears only when complete")
      ->required();
  fetch->add_option("--peer", flags->sources, "Address of a peer that has the files (repeatable)")
      ->required();
  fetch->add_option("--listen", flags->swarm.listen,
                    "Address for other fetchers [default: the one toward the first peer]");
  fetch->add_option("--member", flags->swarm.members,
                    "Address or network that may connect in addition to the peers (repeatable)");
  fetch->add_option("--model", flags->model, "Reject a manifest of another model")
      ->option_text("NAME");
  fetch->add_option("--sha256", flags->sha256, "Reject a manifest with another SHA-256");
  fetch->add_option("--give-up", flags->give_up_s, "Seconds without a byte before it fails")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  AddSwarmOptions(*fetch, flags->swarm);
  fetch->callback([flags, exit_status] {
    const absl::Status status = FetchFolder(*flags);
    if (!status.ok() && flags->swarm.json) {
      const nlohmann::ordered_json document = {{"schema", kWeightsSchema},
                                               {"error", std::string(status.message())}};
      fmt::print("{}\n", document.dump(2));
    }
    *exit_status = Fail(status);
  });
}

}  // namespace longhaul
