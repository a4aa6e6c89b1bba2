#include "experiments/run/preflight.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/run/gpu_spread.h"
#include "experiments/run/machine_limits.h"
#include "experiments/train/check_training.h"
#include "experiments/train/simulated_clock.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/spec_files.h"
#include "experiments/train/whole_tensors.h"
#include "netem/emulator.h"
#include "netem/machine/capabilities.h"
#include "netem/topology/topology_file.h"
#include "pp_group/device_check.h"
#include "pp_group/device_name.h"

namespace longhaul {
namespace {

std::string Gigabytes(int64_t bytes) {
  const double gb = static_cast<double>(bytes) / 1e9;
  return gb < 1000 ? fmt::format("{:.2f} GB", gb) : fmt::format("{:.3g} GB", gb);
}

absl::Status In(const std::string& where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", where, std::string(status.message())));
}

// A process that has asked after a GPU cannot fork workers that use one, so a child asks.
absl::Status CheckOnDevice(const std::string& device, const std::function<absl::Status()>& check) {
  if (device == "cpu") return check();
  int ends[2];
  if (pipe(ends) != 0) return absl::UnavailableError("pipe for the check of a device");
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = check();
    const std::string text =
        fmt::format("{}\n{}", static_cast<int>(status.code()), std::string(status.message()));
    const bool told = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char piece[512];
  for (ssize_t n; child > 0 && (n = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, n);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  const size_t line = text.find('\n');
  if (line == std::string::npos) {
    return absl::UnavailableError(
        fmt::format("device '{}': the process that looked at it died", device));
  }
  return absl::Status(static_cast<absl::StatusCode>(std::stoi(text)), text.substr(line + 1));
}

absl::Status CheckGpus(const std::string& device, const std::vector<ResourcePlan>& plans) {
  return device == "cpu" ? absl::OkStatus() : CheckGpuMemory(plans, MemoryOfGpus());
}

// Whether the simulated machine could hold what its ranks have to: as if each were a process there.
absl::Status CheckMachine(const RunSpec& spec) {
  ASSIGN_OR_RETURN(const auto clock, SimulatedClock::Of(spec));
  const int64_t bytes = RankBytes(spec);
  const double most = spec.compute->memory_gb * 1e9;
  if (static_cast<double>(bytes) <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "not enough memory on the simulated machine: with schedule '{}' and {} micro-batches a rank "
      "holds {}, and compute.memory_gb = {:g}; want another schedule, more stages or fewer rows",
      spec.schedule.kind, spec.train.microbatches, Gigabytes(bytes), spec.compute->memory_gb));
}

// An emulator that is asked for must be there; "auto" takes what is. A profile fits any number of
// ranks.
absl::Status CheckLinks(const RunSpec& spec) {
  if (spec.simulated_clock()) return CheckMachine(spec);
  if (spec.net.transport != "ucx") return absl::OkStatus();
  if (spec.net.emulator == "netem") {
    static const bool there = ProbeCapabilities().netem;
    if (!there) return KernelLacksNetem();
  }
  if (!IsTopologyFile(spec.net.profile)) return absl::OkStatus();
  const auto ranks = static_cast<int>(spec.workers());
  return MeshNamed(spec.net.profile, ranks).status();
}

}  // namespace

absl::Status CheckResources(const std::vector<ResourcePlan>& plans, const Remaining& memory,
                            const Remaining& threads) {
  double bytes = 0, needed_threads = 0;
  int64_t processes = 0, largest = 0;
  for (const ResourcePlan& plan : plans) {
    bytes += static_cast<double>(plan.bytes);
    needed_threads += static_cast<double>(plan.threads);
    processes += plan.processes;
    largest = std::max(largest, plan.worker_bytes);
  }
  const std::string who = fmt::format("{} process{}", processes, processes == 1 ? "" : "es");
  if (bytes > static_cast<double>(memory.amount)) {
    return absl::ResourceExhaustedError(fmt::format(
        "not enough memory: {} would take {} (the largest {}), and there are {} ({}); lower "
        "model.width, train.batch_rows, schedule.stages or outer.groups, or the runs at a time",
        who, Gigabytes(static_cast<int64_t>(std::min(bytes, 9e18))), Gigabytes(largest),
        Gigabytes(memory.amount), memory.by));
  }
  if (needed_threads > static_cast<double>(threads.amount) / 2) {
    return absl::ResourceExhaustedError(fmt::format(
        "too many threads: {} would start {:.0f}, and half of what is left are {} ({}); "
        "lower limits.threads",
        who, needed_threads, threads.amount / 2, threads.by));
  }
  return absl::OkStatus();
}

std::vector<ResourcePlan> LargestTogether(std::vector<PlannedLoad> all, const PoolLimits& limits) {
  std::sort(all.begin(), all.end(),
            [](const PlannedLoad& a, const PlannedLoad& b) { return a.plan.bytes > b.plan.bytes; });
  std::vector<ResourcePlan> together;
  int64_t cores = 0;
  for (const PlannedLoad& run : all) {
    if (static_cast<int64_t>(together.size()) == limits.jobs) break;
    if (!together.empty() && cores + run.cores > limits.cores) continue;
    together.push_back(run.plan);
    cores += run.cores;
  }
  return together;
}

absl::Status Preflight(const RunSpec& spec) {
  if (spec.program) return CheckProgram(spec);
  RETURN_IF_ERROR(CheckLinks(spec));
  RETURN_IF_ERROR(CheckCodecsFit(spec));
  const ResourcePlan plan = PlanResources(spec);
  if (absl::Status s = CheckResources({plan}, RemainingMemory(), RemainingThreads()); !s.ok()) {
    return s;
  }
  return CheckOnDevice(spec.train.device, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> corpus, OpenCorpus(spec));
    RETURN_IF_ERROR(CheckTraining(spec, *corpus));
    RETURN_IF_ERROR(CheckRestoring(spec, *corpus));
    return CheckGpus(spec.train.device, {plan});
  });
}

absl::Status Preflight(const CampaignSpec& campaign, const PoolLimits& limits) {
  for (const PlannedRun& run : campaign.runs) {
    if (!run.spec.program || run.seed != campaign.seeds.front()) break;
    if (absl::Status s = CheckProgram(run.spec); !s.ok()) return In("arm '" + run.arm + "'", s);
  }
  if (campaign.runs.front().spec.program) return absl::OkStatus();
  std::vector<PlannedLoad> all;
  const Remaining memory = RemainingMemory(), threads = RemainingThreads();
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front()) break;  // the other seeds differ in nothing else
    if (absl::Status s = CheckLinks(run.spec); !s.ok()) return In("arm '" + run.arm + "'", s);
    if (absl::Status s = CheckCodecsFit(run.spec); !s.ok()) return In("arm '" + run.arm + "'", s);
    const ResourcePlan plan = PlanResources(run.spec);
    if (absl::Status s = CheckResources({plan}, memory, threads); !s.ok()) {
      return In(fmt::format("arm '{}'", run.arm), s);
    }
    all.insert(all.end(), campaign.seeds.size(), {plan, CoresNeeded(run.spec)});
  }
  std::vector<ResourcePlan> together = LargestTogether(std::move(all), limits);
  if (absl::Status s = CheckResources(together, memory, threads); !s.ok()) {
    return In(fmt::format("{} runs at a time", together.size()), s);
  }
  std::map<std::tuple<std::string, std::string, int64_t>, std::shared_ptr<const Corpus>> opened;
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front()) break;
    auto& corpus = opened[{run.spec.data.source, run.spec.data.eval, run.spec.model.vocab}];
    if (corpus == nullptr) {
      ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> read, OpenCorpus(run.spec));
      corpus = std::move(read);
    }
    const absl::Status taken = CheckOnDevice(run.spec.train.device, [&] {
      absl::Status status = CheckTraining(run.spec, *corpus);
      if (status.ok()) status = CheckRestoring(run.spec, *corpus);
      for (size_t i = 0; status.ok() && i < limits.gpus.size(); ++i) {
        status = CheckGpuIsThere(fmt::format("cuda:{}", limits.gpus[i]), GpuCount());
      }
      return status.ok() ? CheckGpus(run.spec.train.device, {PlanResources(run.spec)}) : status;
    });
    if (!taken.ok()) return In(fmt::format("arm '{}'", run.arm), taken);
  }
  // The largest in the host's memory are so on a GPU.
  const auto on_gpu = [](const ResourcePlan& plan) { return plan.device != "cpu"; };
  if (together.size() < 2 || std::none_of(together.begin(), together.end(), on_gpu)) {
    return absl::OkStatus();
  }
  GpuSpread spread(limits.gpus);
  for (ResourcePlan& plan : together) {
    if (const std::optional<int> gpu = spread.Take()) plan.device = fmt::format("cuda:{}", *gpu);
  }
  return In(fmt::format("{} runs at a time", together.size()),
            CheckOnDevice("cuda", [&] { return CheckGpus("cuda", together); }));
}

}  // namespace longhaul
