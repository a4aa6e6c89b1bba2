// `weights share`: offers a folder until it is told to end.
#include <fmt/format.h>
#include <poll.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/command/command.h"
#include "experiments/command/command_weights.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {
namespace {

constexpr int kLookMs = 1000;

struct ShareWords {
  SwarmWords swarm;
  std::string folder, manifest;
  ManifestWords about;
};

// A manifest that is there is the one that others have: it stays, and the folder must hold what it
// says. Without one, it is made.
absl::StatusOr<Manifest> ManifestFor(const ShareWords& words) {
  if (std::filesystem::exists(words.manifest)) {
    auto manifest = ReadManifest(words.manifest);
    if (!manifest.ok()) return manifest.status();
    const bool other = (!words.about.model.empty() && words.about.model != manifest->model) ||
                       (!words.about.run.empty() && words.about.run != manifest->run) ||
                       (words.about.step != 0 && words.about.step != manifest->step);
    if (other) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is there and says model '{}', run '{}', step {}: remove it to have it made anew",
          words.manifest, manifest->model, manifest->run, manifest->step));
    }
    if (auto s = CheckFiles(*manifest, words.folder); !s.ok()) {
      return absl::Status(s.code(), fmt::format("{}; remove {} to have it made anew",
                                                std::string(s.message()), words.manifest));
    }
    return manifest;
  }
  auto manifest = MakeManifest(words.folder, words.about);
  if (!manifest.ok()) return manifest.status();
  if (auto s = WriteManifest(*manifest, words.manifest); !s.ok()) return s;
  return manifest;
}

// Until a signal comes or the files change.
absl::Status AwaitEnd(const Share& share, const CancelSignal& cancel, bool quiet) {
  int64_t told = 0;
  while (true) {
    pollfd signal{cancel.fd(), POLLIN, 0};
    if (poll(&signal, 1, kLookMs) > 0) return absl::OkStatus();
    if (auto s = share.health(); !s.ok()) return s;
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
                                       {"taken", taken}};
    if (!end.ok()) document["error"] = std::string(end.message());
    fmt::print("{}\n", document.dump(2));
    return;
  }
  for (const MemberBytes& member : share.taken()) {
    fmt::print("{:<15} took {}\n", member.ip, Megabytes(member.bytes));
  }
}

absl::Status ShareFolder(const ShareWords& words) {
  const CancelSignal cancel;  // before other threads exist
  auto options = OptionsOf(words.swarm);
  if (!options.ok()) return options.status();
  auto manifest = ManifestFor(words);
  if (!manifest.ok()) return manifest.status();
  auto share = Share::Start(*manifest, words.folder, *options);
  if (!share.ok()) return share.status();
  fmt::print(words.swarm.json ? stderr : stdout,
             "sharing {}: {} files, {}, at {}\nmanifest {}, SHA-256 {}\n", manifest->name,
             manifest->files.size(), Megabytes(TotalBytes(*manifest)),
             ToString((*share)->address()), words.manifest, ManifestDigest(*manifest));
  std::fflush(stdout);
  const absl::Status end = AwaitEnd(**share, cancel, words.swarm.quiet);
  TellTaken(*manifest, **share, words.swarm.json, end);
  return end;
}

}  // namespace

void AddWeightsShareCommand(CLI::App& weights, int* exit_status) {
  auto words = std::make_shared<ShareWords>();
  CLI::App* share = weights.add_subcommand(
      "share", "offers DIR to the members until SIGINT or SIGTERM; says who took how much");
  share->add_option("dir", words->folder, "the folder")->required();
  share->add_option("--listen", words->swarm.listen, "ADDR:PORT, an address of this host or node")
      ->required();
  share->add_option("--member", words->swarm.members, "who may fetch: 10.0.0.3, 10.0.0.0/16")
      ->required();
  share
      ->add_option("--manifest", words->manifest,
                   "file for those who fetch; made where it is not there, else shared as it is")
      ->required();
  share->add_option("--model", words->about.model, "of which model the files are");
  share->add_option("--run", words->about.run, "of which run");
  share->add_option("--step", words->about.step, "of which step");
  AddSwarmOptions(*share, words->swarm);
  share->callback([words, exit_status] {
    const absl::Status status = ShareFolder(*words);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace longhaul
