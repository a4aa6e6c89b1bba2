#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "netem/capabilities.h"
#include "netem/lab.h"
#include "netem/posix.h"
#include "netem/probe.h"
#include "netem/queue_limits.h"
#include "netem/tap_network.h"

namespace longhaul {
namespace {

constexpr BitsPerSecond kUnreached = Gbit(40);
constexpr absl::Duration kWarmUp = absl::Seconds(1);

struct Carried {
  double bits_per_second = 0;  // at the Ethernet level
  double core_share = 0;
};

// Inside a lab. `loss_prob` > 0 makes the emulator cut frames to the MTU.
absl::StatusOr<Carried> Measure(double loss_prob, absl::Duration measure) {
  Topology topology{.profile = "ceiling", .nodes = {}, .paths = {}};
  topology.nodes = {{"a", std::nullopt}, {"b", std::nullopt}};
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) {
    topology.paths.push_back({.from = from,
                              .to = to,
                              .rate = kUnreached,
                              .delay = absl::Microseconds(500),
                              .jitter = absl::ZeroDuration(),
                              .loss_prob = loss_prob});
  }
  auto emulator = BuildEmulator(EmulatorKind::kTap, topology);
  if (!emulator.ok()) return emulator.status();
  const absl::Time start = absl::Now();
  auto rate = ProbeRate(**emulator, 0, 1, kWarmUp, measure, "");
  if (!rate.ok()) return rate.status();
  const double busy = absl::FDivDuration((*emulator)->cpu_time(), absl::Now() - start);
  return Carried{rate->goodput.value / TcpPayloadShare(topology.mtu), busy};
}

int RunMeasurements(int answer_fd, absl::Duration measure) {
  // Rare enough that none is drawn in a measurement, and yet it asks for MTU frames.
  constexpr double kAlmostNoLoss = 1e-15;
  for (double loss_prob : {0.0, kAlmostNoLoss}) {
    auto carried = Measure(loss_prob, measure);
    if (!carried.ok()) {
      const std::string why(carried.status().message());
      return write(answer_fd, why.data(), why.size()) < 0 ? 2 : 1;
    }
    if (write(answer_fd, &*carried, sizeof *carried) < 0) return 2;
  }
  return 0;
}

}  // namespace

absl::StatusOr<TapCeiling> MeasureTapCeiling(absl::Duration measure) {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return ErrnoStatus("tap ceiling: pipe", errno);
  const Fd reader(answer[0]);
  Fd writer(answer[1]);
  auto lab = StartLab([&] { return RunMeasurements(writer.get(), measure); }, {writer.get()});
  writer.reset();
  if (!lab.ok()) return lab.status();
  std::string bytes;
  char buffer[1024];
  ssize_t n = 0;
  while ((n = read(reader.get(), buffer, sizeof buffer)) > 0) bytes.append(buffer, n);
  int status = 0;
  waitpid(lab->pid, &status, 0);
  if (status != 0 || bytes.size() != 2 * sizeof(Carried)) {
    return absl::FailedPreconditionError(fmt::format("tap ceiling: {}", bytes));
  }
  Carried carried[2];
  bytes.copy(reinterpret_cast<char*>(carried), sizeof carried);
  return TapCeiling{{carried[0].bits_per_second},
                    {carried[1].bits_per_second},
                    carried[0].core_share,
                    carried[1].core_share};
}

absl::Status CheckRates(const Topology& topology, const TapCeiling& ceiling) {
  for (const PathSpec& path : topology.paths) {
    const auto rate = NominalRate(topology, path);
    if (!rate) continue;
    const bool cut = NeedsMtuFrames(topology, path.from);
    const BitsPerSecond most = cut ? ceiling.mtu_frames : ceiling.tso;
    if (*rate <= most) continue;
    return absl::FailedPreconditionError(fmt::format(
        "path {} > {}: {:.0f} Mbit/s is more than this machine carries with the tap emulator "
        "({:.0f} Mbit/s measured{}); choose a slower profile, or a kernel with sch_netem",
        topology.nodes[path.from].name, topology.nodes[path.to].name, InMbit(*rate), InMbit(most),
        cut ? ", frames cut to the MTU for loss or a slow line" : ""));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
