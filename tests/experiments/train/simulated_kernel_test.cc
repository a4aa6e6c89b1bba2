// The simulated clock against runs of experiments/specs/clock-pair.toml over the kernel's own TCP in
// virtual time (Linux 6.12.117, docs/virtual-time.md), as bench/virtual_grid.py recorded them.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "experiments/train/simulated_clock.h"

namespace longhaul {
namespace {

// When rank 0 ended each step, and at the end all of them the run.
std::vector<double> Ends(std::vector<std::string> sets) {
  sets.insert(sets.end(), {"net.clock=simulated", "net.transport=loopback"});
  auto spec = LoadRunSpec(LONGHAUL_CLOCK_PAIR, sets, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  spec->net.emulator = "netem";
  const auto clock = SimulatedClock::Of(*spec);
  EXPECT_TRUE(clock.ok()) << clock.status();
  std::vector<double> ends;
  for (int64_t step = 0; step < spec->train.steps; ++step) {
    EXPECT_TRUE((*clock)->Step().ok());
    ends.push_back((*clock)->Seconds(0, 0));
  }
  double last = 0;
  for (int g = 0; g < 2; ++g) {
    for (int s = 0; s < 2; ++s) last = std::max(last, (*clock)->Seconds(g, s));
  }
  ends.push_back(last);
  return ends;
}

// Steps 1 to 9, of which the fifth ends with an exchange; the run. Behind the first exchange it hangs on which
// frames a full queue drops, and on when ten seconds are over.
TEST(SimulatedClock, HasTheStepsOfTheKernelsBbr) {
  struct Recorded {
    const char* links;
    std::vector<double> steps;
    double run, exchange_within;
  };
  for (const Recorded& r :
       {Recorded{"continental-us",
                 {1.111, 0.947, 0.930, 0.930, 1.445, 0.930, 0.930, 0.930, 0.930},
                 20.620,
                 0.005},
        Recorded{"transpacific", {1.494, 1.214, 1.193, 1.189, 2.042, 1.187, 1.187}, 26.466, 0.01},
        Recorded{"global",
                 {2.686, 1.987, 1.904, 1.888, 3.950, 1.886, 1.886, 1.886, 1.886},
                 43.553,
                 0.07}}) {
    const std::vector<double> ends =
        Ends({"net.congestion_control=bbr", fmt::format("net.profile={}", r.links)});
    double before = 0;
    for (size_t step = 0; step < r.steps.size(); ++step) {
      const double within = step == 4 ? r.exchange_within : 0.005;
      EXPECT_NEAR((ends[step] - before) / r.steps[step], 1, within) << r.links << ", " << step + 1;
      before = ends[step];
    }
    EXPECT_NEAR(std::log(r.run / ends.back()), 0, 0.05) << r.links;
  }
}

// One packet of a thousand, Reno: means of eight seeds, which the kernel and the clock draw by themselves, and
// how far the kernel's 95 % interval reaches.
TEST(SimulatedClock, LosesAsMuchTimeToLossesAsTheKernel) {
  constexpr double kRun = 24.365, kRunWithin = 2.435, kStep = 0.865, kStepWithin = 0.021;
  constexpr int kSeeds = 8;
  double run = 0, step = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<double> ends =
        Ends({"net.profile=" LONGHAUL_TEST_LOSSY, fmt::format("seed={}", seed)});
    run += ends.back() / kSeeds;
    for (size_t s = 2; s < 20; ++s) {
      if ((s + 1) % 5 != 0) step += (ends[s] - ends[s - 1]) / (14 * kSeeds);
    }
  }
  std::printf("run %.3f s, kernel %.3f; step %.3f s, kernel %.3f\n", run, kRun, step, kStep);
  EXPECT_NEAR(run, kRun, kRunWithin);
  EXPECT_NEAR(step, kStep, kStepWithin);
}

}  // namespace
}  // namespace longhaul
