// What every emulator must hold, over all emulators that this machine can run. A measurement that
// is out of bounds is repeated, kAttempts times in all; the bounds themselves never give.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "netem/probe.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

constexpr int kAttempts = 3;

struct Profiled {
  EmulatorKind kind;
  const char* profile;
};
class Acceptance : public testing::TestWithParam<std::tuple<EmulatorKind, const char*>> {
 protected:
  EmulatorKind kind() const { return std::get<0>(GetParam()); }
  Topology topology() const { return *UniformTopology(std::get<1>(GetParam()), 2); }
};

void Print(const char* what, double nominal, double measured, double bound, bool ok) {
  printf("  %-12s nominal %10.3f measured %10.3f bound %8.3f  %s\n", what, nominal, measured, bound,
         ok ? "ok" : "OUT");
}

TEST_P(Acceptance, IdleRoundTripIsNominalWithinHalfAMillisecondOrHalfAPercent) {
  WithEmulator(kind(), topology(), [](const Emulator& emulator) {
    bool ok = false;
    for (int attempt = 0; attempt < kAttempts && !ok; ++attempt) {
      auto rtt = ProbeRtt(emulator, 0, 1, /*count=*/100, absl::Milliseconds(10));
      ASSERT_TRUE(rtt.ok()) << rtt.status();
      EXPECT_EQ(rtt->received, rtt->sent);
      const double nominal_ms = absl::ToDoubleMilliseconds(rtt->nominal);
      const double bound_ms = std::max(0.5, 0.005 * nominal_ms);
      const double mean_ms = absl::ToDoubleMilliseconds(rtt->mean);
      const double p99_ms = absl::ToDoubleMilliseconds(rtt->p99);
      const bool mean_ok = std::abs(mean_ms - nominal_ms) <= bound_ms;
      const bool p99_ok = p99_ms <= nominal_ms + 1;
      Print("mean ms", nominal_ms, mean_ms, bound_ms, mean_ok);
      Print("p99 ms", nominal_ms, p99_ms, 1, p99_ok);
      ok = mean_ok && p99_ok;
    }
    EXPECT_TRUE(ok) << "out of bounds in " << kAttempts << " attempts";
  });
}

TEST_P(Acceptance, CubicFillsTheLinkWithinHalfAPercent) {
  WithEmulator(kind(), topology(), [](const Emulator& emulator) {
    const PathSpec& path = *FindPath(emulator.topology(), 0, 1);
    const absl::Duration warm_up = std::max(absl::Seconds(5), 45 * path.delay * 2);
    bool ok = false;
    for (int attempt = 0; attempt < kAttempts && !ok; ++attempt) {
      auto rate = ProbeRate(emulator, 0, 1, warm_up, absl::Seconds(10), "cubic");
      ASSERT_TRUE(rate.ok()) << rate.status();
      const double nominal = InMbit(rate->nominal_goodput);
      ok = std::abs(InMbit(rate->goodput) - nominal) <= 0.005 * nominal;
      Print("Mbit/s", nominal, InMbit(rate->goodput), 0.005 * nominal, ok);
    }
    EXPECT_TRUE(ok) << "out of bounds in " << kAttempts << " attempts";
  });
}

INSTANTIATE_TEST_SUITE_P(Emulators, Acceptance,
                         testing::Combine(testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                                          testing::Values("regional", "continental-us",
                                                          "worst-case")),
                         [](const auto& test) {
                           std::string name = std::string(ToString(std::get<0>(test.param))) + "_" +
                                              std::get<1>(test.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace longhaul
