// Plays a run's program over the lab's links with the kernel's own TCP, and prints when each rank ended
// each step, beside the clock of runs without links. bench/virtual_grid.py starts it in a guest
// whose time is virtual.
//
// Usage: virtual_run SPEC.toml [KEY=VALUE...]
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/spec/known_names.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/simulated_clock.h"
#include "netem/lab/lab.h"
#include "netem/topology/topology_file.h"
#include "tests/experiments/virtual/played_run.h"

namespace longhaul {
namespace {

absl::Status PlayAndCompare(const RunSpec& spec) {
  const auto links = MeshNamed(spec.net.profile, static_cast<int>(spec.workers()));
  if (!links.ok()) return links.status();
  auto clock = SimulatedClock::Of(spec, *links);
  if (!clock.ok()) return clock.status();
  auto emulator = BuildEmulator(EmulatorKind::kNetem, *links,
                                {.congestion_control = spec.net.congestion_control,
                                 .slow_start_after_idle = spec.net.slow_start_after_idle,
                                 .seed = static_cast<uint64_t>(spec.seed)});
  if (!emulator.ok()) return emulator.status();
  const auto played = PlayRun(spec, **emulator);
  if (!played.ok()) return played.status();
  fmt::print("step,rank,measured_s,engine_s\n");
  const auto ranks = static_cast<size_t>(spec.ranks());
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  for (size_t step = 0; step < played->front().size(); ++step) {
    if (absl::Status s = (*clock)->Step(); !s.ok()) return s;
    for (size_t rank = 0; rank < played->size(); ++rank) {
      const auto stage = std::find(rank_of_stage.begin(), rank_of_stage.end(), rank % ranks);
      const double engine_s = (*clock)->Seconds(static_cast<int>(rank / ranks),
                                                static_cast<int>(stage - rank_of_stage.begin()));
      fmt::print("{},{},{:.6f},{:.6f}\n", step + 1, rank, (*played)[rank][step], engine_s);
    }
  }
  int64_t frames = 0, dropped = 0, lost = 0;
  for (const PathSpec& path : links->paths) {
    const auto counters = (*emulator)->counters(path.from, path.to);
    if (!counters.ok()) return counters.status();
    frames += counters->packets;
    dropped += counters->drops_queue;
    lost += counters->drops_loss;
  }
  fmt::print("frames {} dropped {} lost {}\n", frames, dropped, lost);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: virtual_run SPEC.toml [KEY=VALUE...]\n");
    return 2;
  }
  std::vector<std::string> sets(argv + 2, argv + argc);
  sets.insert(sets.end(), {"net.clock=simulated", "net.transport=loopback"});
  auto spec = LoadRunSpec(argv[1], sets, CatalogNames());
  if (!spec.ok()) {
    fmt::print(stderr, "virtual_run: {}\n", std::string(spec.status().message()));
    return 2;
  }
  spec->net.emulator = "netem";  // for the links; a simulated clock in a file names none
  const auto lab = StartLab(
      [&] {
        const absl::Status s = PlayAndCompare(*spec);
        if (!s.ok()) fmt::print("virtual_run: {}\n", std::string(s.message()));
        fflush(stdout);
        return s.ok() ? 0 : 1;
      },
      {});
  if (!lab.ok()) {
    fmt::print(stderr, "virtual_run: {}\n", std::string(lab.status().message()));
    return 1;
  }
  int status = 0;
  waitpid(lab->pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
