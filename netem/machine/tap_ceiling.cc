#include "netem/machine/tap_ceiling.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "base/status_macros.h"
#include "netem/emulators/mtu_frames.h"
#include "netem/kernel/posix.h"
#include "netem/lab/lab.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr BitsPerSecond kUnreached = Gbit(40);
constexpr absl::Duration kWarmUp = absl::Seconds(1);

struct Carried {
  double bits_per_second = 0;  // at the Ethernet level
  double core_share = 0;
};

// Inside a lab. `loss_prob` > 0 makes the tap emulator cut frames to the MTU.
absl::StatusOr<Carried> Measure(EmulatorKind kind, double loss_prob, absl::Duration measure) {
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
  ASSIGN_OR_RETURN(auto emulator, BuildEmulator(kind, topology));
  const absl::Time start = MonotonicNow();
  ASSIGN_OR_RETURN(auto rate, ProbeRate(*emulator, 0, 1, kWarmUp, measure, ""));
  const double busy = absl::FDivDuration(emulator->cpu_time(), MonotonicNow() - start);
  return Carried{rate.goodput.value / TcpPayloadShare(topology.mtu), busy};
}

// In a lab of its own.
absl::StatusOr<Carried> MeasureApart(EmulatorKind kind, double loss_prob, absl::Duration measure) {
  ASSIGN_OR_RETURN(auto answer, AskInLab([&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(auto carried, Measure(kind, loss_prob, measure));
                     return fmt::format("{} {}", carried.bits_per_second, carried.core_share);
                   }));
  Carried carried;
  if (sscanf(answer.c_str(), "%lf %lf", &carried.bits_per_second, &carried.core_share) != 2) {
    return absl::InternalError(fmt::format("ceiling: '{}'", answer));
  }
  return carried;
}

}  // namespace

absl::StatusOr<TapCeiling> MeasureTapCeiling(absl::Duration measure) {
  // Rare enough that none is drawn in a measurement, and yet it asks for MTU frames.
  constexpr double kAlmostNoLoss = 1e-15;
  ASSIGN_OR_RETURN(auto whole, MeasureApart(EmulatorKind::kTap, 0, measure));
  ASSIGN_OR_RETURN(auto cut, MeasureApart(EmulatorKind::kTap, kAlmostNoLoss, measure));
  return TapCeiling{
      {whole.bits_per_second}, {cut.bits_per_second}, whole.core_share, cut.core_share};
}

absl::StatusOr<BitsPerSecond> MeasureNetemCeiling(absl::Duration measure) {
  ASSIGN_OR_RETURN(auto carried, MeasureApart(EmulatorKind::kNetem, 0, measure));
  return BitsPerSecond{carried.bits_per_second};
}

absl::StatusOr<RttSample> MeasureIdleRtt(EmulatorKind kind) {
  ASSIGN_OR_RETURN(auto answer, AskInLab([&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(auto topology, UniformTopology("regional", 2));
                     ASSIGN_OR_RETURN(auto emulator, BuildEmulator(kind, topology));
                     auto rtt = ProbeRtt(*emulator, 0, 1, /*count=*/200, absl::Milliseconds(5));
                     if (!rtt.ok()) return rtt.status();
                     return std::string(reinterpret_cast<const char*>(&*rtt), sizeof *rtt);
                   }));
  RttSample rtt;
  if (answer.size() != sizeof rtt) return absl::InternalError("idle round trip: no figures");
  answer.copy(reinterpret_cast<char*>(&rtt), sizeof rtt);
  return rtt;
}

absl::Status CheckRates(const Topology& topology, const TapCeiling& ceiling) {
  for (const PathSpec& path : topology.paths) {
    const auto rate = NominalRate(topology, path);
    if (!rate) continue;
    const bool cut = NeedsMtuFrames(topology, path.from);
    const BitsPerSecond most = cut ? ceiling.mtu_frames : ceiling.tso;
    if (*rate <= most) continue;
    return absl::FailedPreconditionError(fmt::format(
        "{}path {} > {}: {:.0f} Mbit/s is more than this machine carries with the tap emulator "
        "({:.0f} Mbit/s measured{}); choose a slower profile or a kernel with sch_netem, or run "
        "'longhaul doctor' again if the machine was busy then",
        path.line > 0 ? fmt::format("{}:{}: ", topology.profile, path.line) : "",
        topology.nodes[path.from].name, topology.nodes[path.to].name, InMbit(*rate), InMbit(most),
        cut ? ", frames cut to the MTU for loss or a slow line" : ""));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
