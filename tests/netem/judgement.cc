#include "tests/netem/judgement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "netem/probes/probe.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

constexpr int kJudgedAttempts = 3;

// The guest has one CPU and timers with a tail of up to 25 ms: there the median is judged, at 1 ms,
// and rates at 2 %. One CPU runs sender, router and receiver and so carries about 0.6 Gbit/s, of
// which other work on the host takes its share: faster profiles are judged at kGuestRate there.
constexpr BitsPerSecond kGuestRate = Mbit(200);
// A sender that paces sets a timer per packet, which is a signal from the host in the guest: at
// 100 Mbit/s nothing else would run.
constexpr BitsPerSecond kGuestPacedRate = Mbit(20);

}  // namespace

bool InGuest() { return getenv("LONGHAUL_GUEST") != nullptr; }
bool Long() {
  const char* form = getenv("LONGHAUL_LINKS");
  return form != nullptr && std::string(form) == "long";
}

absl::Duration MeasureFor() { return absl::Seconds(Long() ? 20 : 3); }

double RttBoundMs(double nominal_ms) { return std::max(InGuest() ? 1.0 : 0.5, 0.005 * nominal_ms); }
double RateShare() { return InGuest() ? 0.02 : 0.005; }

Topology ForThisMachine(Topology topology, Sender sender) {
  const BitsPerSecond most = sender == Sender::kPaces ? kGuestPacedRate : kGuestRate;
  for (PathSpec& path : topology.paths) {
    if (InGuest() && path.rate && *path.rate > most) {
      printf("  %.0f Mbit/s is more than the guest carries: judged at %.0f\n", InMbit(*path.rate),
             InMbit(most));
      path.rate = most;
    }
  }
  return topology;
}
Topology Pair(const char* profile, Sender sender) {
  return ForThisMachine(*UniformTopology(profile, 2), sender);
}

bool Judge(const char* what, double nominal, double measured, double low, double high) {
  const bool ok = measured >= low && measured <= high;
  printf("  %-22s nominal %10.4f  measured %10.4f  bounds %10.4f .. %10.4f  %s\n", what, nominal,
         measured, low, high, ok ? "ok" : "OUT");
  return ok;
}
bool Near(const char* what, double nominal, double measured, double bound) {
  return Judge(what, nominal, measured, nominal - bound, nominal + bound);
}

void ExpectInBounds(bool (*can_judge)(const Oversleep&), const std::function<bool()>& measure) {
  const int attempts = Long() ? 6 : 4;
  int judged = 0;
  Oversleep last;
  for (int attempt = 0; attempt < attempts && judged < kJudgedAttempts; ++attempt) {
    WakeControl control;
    if (measure() || testing::Test::HasFatalFailure()) return;
    last = control.Stop();
    const bool counts = can_judge(last);
    judged += counts ? 1 : 0;
    printf("  %s: %s\n", counts ? "judged" : "not judged", last.ToText().c_str());
  }
  if (judged == kJudgedAttempts) {
    ADD_FAILURE() << "out of bounds in " << judged << " attempts on a machine that could judge";
  } else {
    SkipFromLab("this machine could not judge: " + last.ToText());
  }
}

bool RttInBounds(const Emulator& emulator, int from, int to) {
  auto rtt = ProbeRtt(emulator, from, to, /*count=*/100, absl::Milliseconds(10));
  if (!rtt.ok()) {
    ADD_FAILURE() << rtt.status();
    return false;
  }
  EXPECT_EQ(rtt->received, rtt->sent);
  const double nominal = absl::ToDoubleMilliseconds(rtt->nominal);
  const double p99 = absl::ToDoubleMilliseconds(rtt->p99);
  if (InGuest()) {
    printf("  p99 %.4f ms, not judged in the guest\n", p99);
    return Near("median RTT, ms", nominal, absl::ToDoubleMilliseconds(rtt->median),
                RttBoundMs(nominal));
  }
  const bool mean_ok =
      Near("mean RTT, ms", nominal, absl::ToDoubleMilliseconds(rtt->mean), RttBoundMs(nominal));
  return Judge("p99 RTT, ms", nominal, p99, 0, nominal + 1) && mean_ok;
}

bool RateInBounds(const Emulator& emulator, int from, int to, const std::string& control,
                  double low_share, double high_share) {
  const PathSpec& path = *FindPath(emulator.topology(), from, to);
  const absl::Duration rtt = NominalRtt(emulator.topology(), path);
  const absl::Duration warm_up = std::max(absl::Seconds(Long() ? 5 : 3), (Long() ? 45 : 25) * rtt);
  const absl::Duration cpu_before = emulator.cpu_time();
  const absl::Time start = absl::Now();
  auto rate = ProbeRate(emulator, from, to, warm_up, MeasureFor(), control);
  if (emulator.kind() == EmulatorKind::kTap) {
    printf("  the emulator used %.0f %% of a core\n",
           100 * absl::FDivDuration(emulator.cpu_time() - cpu_before, absl::Now() - start));
  }
  if (!rate.ok()) {
    ADD_FAILURE() << rate.status();
    return false;
  }
  const double nominal = InMbit(rate->nominal_goodput);
  return Judge((control + ", Mbit/s").c_str(), nominal, InMbit(rate->goodput),
               nominal * (1 - low_share), nominal * (1 + high_share));
}

}  // namespace longhaul
