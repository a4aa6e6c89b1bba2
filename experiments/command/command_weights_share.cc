// `weights share`: offers a folder until it is told to end.
#include <fmt/format.h>
#include <poll.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_weights.h"
#include "experiments/record/whole_file.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {
namespace {

constexpr int kLookMs = 1000;

struct ShareFlags {
  SwarmFlags swarm;
  std::string folder, manifest;
  ManifestWords about;
};

// A manifest that is there is the one that others have: it stays, and the folder must hold what it
// says. Without one, it is made.
absl::StatusOr<Manifest> ManifestFor(const ShareFlags& flags) {
  if (std::filesystem::exists(flags.manifest)) {
    auto manifest = ReadManifest(flags.manifest);
    if (!manifest.ok()) return manifest.status();
    const bool other = (!flags.about.model.empty() && flags.about.model != manifest->model) ||
                       (!flags.about.run.empty() && flags.about.run != manifest->run) ||
                       (flags.about.step != 0 && flags.about.step != manifest->step);
    if (other) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is there and says model '{}', run '{}', step {}: remove it to have it made anew",
          flags.manifest, manifest->model, manifest->run, manifest->step));
    }
    if (auto s = CheckFiles(*manifest, flags.folder); !s.ok()) {
      return absl::Status(s.code(), fmt::format("{}; remove {} to have it made anew",
                                                std::string(s.message()), flags.manifest));
    }
    return manifest;
  }
  ASSIGN_OR_RETURN(auto manifest, MakeManifest(flags.folder, flags.about));
  RETURN_IF_ERROR(WriteWholeFile(flags.manifest, ManifestText(manifest)));
  return manifest;
}

// Until a signal comes or the files change.
absl::Status AwaitEnd(const Share& share, const CancelSignal& cancel, bool quiet) {
  int64_t told = 0;
  while (true) {
    pollfd signal{cancel.fd(), POLLIN, 0};
    if (poll(&signal, 1, kLookMs) > 0) return absl::OkStatus();
    RETURN_IF_ERROR(share.health());
    int64_t bytes = 0;
    for (const MemberBytes& member : share.taken()) bytes += member.bytes;
    if (!quiet && bytes != told) {
      fmt::print(stderr, "{} taken by {} members\n", Megabytes(bytes), share.taken().size());
    }
    told = bytes;
  }
}

void TellTaken(const Manifest& manifest, const Share& share, bool json, const absl::Status& end) {
  if (json) {
    nlohmann::ordered_json taken = nlohmann::ordered_json::array();
    for (const MemberBytes& member : share.taken()) {
      taken.push_back({{"ip", member.ip}, {"bytes", member.bytes}});
    }
    nlohmann::ordered_json document = {{"schema", kWeightsSchema},
                                       {"name", manifest.name},
                                       {"manifest_sha256", ManifestDigest(manifest)},
                                       {"bytes", TotalBytes(manifest)},
                                       {"taken", taken},
                                       {"turned_away", share.turned_away()}};
    if (!end.ok()) document["error"] = std::string(end.message());
    fmt::print("{}\n", document.dump(2));
    return;
  }
  for (const MemberBytes& member : share.taken()) {
    fmt::print("{:<15} took {}\n", member.ip, Megabytes(member.bytes));
  }
  if (share.turned_away() > 0) {
    fmt::print("{} connections of others were turned away\n", share.turned_away());
  }
}

absl::Status ShareFolder(const ShareFlags& flags) {
  const CancelSignal cancel;  // before other threads exist
  ASSIGN_OR_RETURN(auto options, OptionsOf(flags.swarm));
  ASSIGN_OR_RETURN(auto manifest, ManifestFor(flags));
  ASSIGN_OR_RETURN(auto share, Share::Start(manifest, flags.folder, options));
  fmt::print(flags.swarm.json ? stderr : stdout,
             "sharing {}: {} files, {}, at {}\nmanifest {}, SHA-256 {}\n", manifest.name,
             manifest.files.size(), Megabytes(TotalBytes(manifest)), ToString(share->address()),
             flags.manifest, ManifestDigest(manifest));
  std::fflush(stdout);
  const absl::Status end = AwaitEnd(*share, cancel, flags.swarm.quiet);
  TellTaken(manifest, *share, flags.swarm.json, end);
  return end;
}

}  // namespace

void AddWeightsShareCommand(CLI::App& weights, int* exit_status) {
  auto flags = std::make_shared<ShareFlags>();
  CLI::App* share = weights.add_subcommand(
      "share", "Offer DIR to the members until SIGINT or SIGTERM; report what each member took");
  share->footer(
      "Example:\n"
      "  longhaul weights share model --listen 10.0.0.2:7000 --member 10.0.0.0/16 "
      "--manifest model.manifest");
  share->add_option("dir", flags->folder, "Folder to share")->required();
  share->add_option("--listen", flags->swarm.listen, "Address of this host or node")->required();
  share
      ->add_option("--member", flags->swarm.members,
                   "Address or network that may fetch, such as 10.0.0.0/16 (repeatable)")
      ->required();
  share
      ->add_option("--manifest", flags->manifest,
                   "File for members that fetch; written if it does not exist")
      ->required();
  share->add_option("--model", flags->about.model, "Name of the model, for the manifest")
      ->option_text("NAME");
  share->add_option("--run", flags->about.run, "Name of the run, for the manifest")
      ->option_text("NAME");
  share->add_option("--step", flags->about.step, "Step of the run, for the manifest");
  AddSwarmOptions(*share, flags->swarm);
  share->callback(Calling(ShareFolder, flags, exit_status));
}

}  // namespace longhaul
