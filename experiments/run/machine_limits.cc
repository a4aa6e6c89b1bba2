#include "experiments/run/machine_limits.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "pp_group/device_name.h"

namespace longhaul {
namespace {

constexpr Remaining kNoLimit{std::numeric_limits<int64_t>::max(), ""};

// The first number of a file; nullopt: no file, or a word such as "max".
std::optional<int64_t> Number(const std::string& path) {
  int64_t value = 0;
  if (std::ifstream(path) >> value) return value;
  return std::nullopt;
}

// The number behind `key` in a file of lines "key value" or "key: value kB".
int64_t Field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && (name == key || name == key + ":")) return value;
  }
  return 0;
}

// The folders of this process's control groups (cgroup v2 and the named v1 controller), from its
// own up to the outermost.
std::vector<std::string> Groups(const std::string& root, const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (!names.empty() && names != controller) continue;
    const std::string base = root + "/sys/fs/cgroup" + (names.empty() ? "" : "/" + controller);
    std::string path = line.substr(second + 1);
    for (;; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      folders.push_back(base + path);
      if (path.empty()) break;
    }
  }
  return folders;
}

void Lower(Remaining& least, int64_t amount, const std::string& by) {
  if (amount < least.amount) least = {std::max<int64_t>(0, amount), by};
}

// Neither is negative.
int64_t SumOrMost(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

double InGb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

Remaining RemainingMemory(const std::string& root) {
  Remaining least = kNoLimit;
  const int64_t available = Field(root + "/proc/meminfo", "MemAvailable") * 1024;
  if (available > 0) Lower(least, available, "MemAvailable");
  for (const std::string& group : Groups(root, "memory")) {
    for (const auto& [limit, usage, reclaimable] :
         {std::tuple("/memory.max", "/memory.current", "inactive_file"),
          {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}}) {
      const std::optional<int64_t> most = Number(group + limit);
      if (!most) continue;
      const int64_t used =
          Number(group + usage).value_or(0) - Field(group + "/memory.stat", reclaimable);
      Lower(least, *most - std::max<int64_t>(0, used), group + limit);
    }
  }
  return least;
}

Remaining RemainingThreads(const std::string& root) {
  Remaining least = kNoLimit;
  const std::string kernel = "/proc/sys/kernel/";
  for (const char* name : {"threads-max", "pid_max"}) {
    if (const auto most = Number(root + kernel + name)) Lower(least, *most, kernel + name);
  }
  for (const std::string& group : Groups(root, "pids")) {
    const std::optional<int64_t> most = Number(group + "/pids.max");
    if (!most) continue;
    Lower(least, *most - Number(group + "/pids.current").value_or(0), group + "/pids.max");
  }
  return least;
}

int64_t CoresNeeded(const RunSpec& spec) {
  if (spec.injected()) return 1;  // its workers sleep
  if (spec.program) return spec.workers() * spec.limits.threads;
  const int64_t processes = spec.net.transport == "loopback" ? 1 : spec.workers();
  return processes * spec.limits.threads;
}

int64_t CoresNeeded(const RunRow& run) {
  if (run.facts.contains(kComputeFact)) return 1;
  const std::string ranks = FactOf(run.facts, kRanksFact);
  const int64_t workers = ranks.empty() ? run.stages * run.groups : std::atoll(ranks.c_str());
  const bool one = run.profile == "loopback" && !run.facts.contains(kProgramFact);
  return (one ? 1 : workers) * run.threads;
}

int64_t CoresAllowed() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1u, std::thread::hardware_concurrency());  // more cores than cpu_set_t holds
}

int64_t CoresBusy(const std::vector<RunRow>& runs, const std::string& host) {
  int64_t cores = 0;
  for (const RunRow& run : runs) {
    if (run.status == RunStatus::kRunning && run.host == host) cores += CoresNeeded(run);
  }
  return cores;
}

std::vector<GpuLoad> LoadOfGpus(const std::vector<ResourcePlan>& plans, int gpus) {
  std::vector<GpuLoad> loads(static_cast<size_t>(gpus));
  for (const ResourcePlan& plan : plans) {
    for (size_t rank = 0; rank < plan.device_bytes.size(); ++rank) {
      const std::optional<int> gpu = GpuOfRank(plan.device, static_cast<int>(rank), gpus);
      if (!gpu || *gpu >= gpus) continue;
      GpuLoad& load = loads[static_cast<size_t>(*gpu)];
      ++load.workers;
      load.bytes = SumOrMost(load.bytes, SumOrMost(plan.device_bytes[rank], kGpuContextBytes));
    }
  }
  return loads;
}

absl::Status CheckGpuMemory(const std::vector<ResourcePlan>& plans,
                            const std::vector<GpuMemory>& gpus) {
  const std::vector<GpuLoad> loads = LoadOfGpus(plans, static_cast<int>(gpus.size()));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const GpuLoad& load = loads[gpu];
    if (load.bytes <= gpus[gpu].free_bytes) continue;
    return absl::ResourceExhaustedError(fmt::format(
        "not enough memory on cuda:{}: {} would take {:.3g} GB of it, and {:.3g} of {:.3g} GB are "
        "free; lower model.width, train.batch_rows, schedule.stages or outer.groups, set "
        "train.recompute = true{}",
        gpu, load.workers == 1 ? "1 worker" : fmt::format("{} workers", load.workers),
        InGb(load.bytes), InGb(gpus[gpu].free_bytes), InGb(gpus[gpu].total_bytes),
        gpus.size() > 1 ? ", or spread the workers over the GPUs (train.device = \"cuda:*\")"
                        : ""));
  }
  return absl::OkStatus();
}

std::vector<GpuMemory> MemoryOfGpus() {
  std::vector<GpuMemory> gpus;
  for (int gpu = 0; gpu < GpuCount(); ++gpu) gpus.push_back(MemoryOfGpu(gpu));
  return gpus;
}

std::vector<std::string> GpuVariables(const std::string& device) {
  std::vector<std::string> variables;
  if (device == "cpu") return variables;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH",
                           "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

}  // namespace longhaul
