#include "experiments/run/gpu_spread.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace longhaul {

absl::StatusOr<std::vector<int>> ParseGpus(const std::string& text) {
  constexpr int kMost = 1024;
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        fmt::format("--gpus '{}': want numbers and ranges of GPUs, as 0-3,6", text));
  };
  std::vector<int> gpus;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    int first = 0, last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first || last >= kMost) {
      return bad();
    }
    for (int gpu = first; gpu <= last; ++gpu) {
      if (std::ranges::find(gpus, gpu) != gpus.end()) {
        return absl::InvalidArgumentError(
            fmt::format("--gpus '{}': GPU {} is there twice", text, gpu));
      }
      gpus.push_back(gpu);
    }
  }
  return gpus;
}

absl::Status CheckCanSpread(const std::vector<PlannedRun>& runs) {
  for (const PlannedRun& run : runs) {
    if (!run.spec.program && run.spec.net.transport == "loopback" &&
        run.spec.train.device == "cuda")
      continue;
    return absl::InvalidArgumentError(fmt::format(
        "--gpus spreads runs of one process on a GPU; arm '{}' has {}: want train.device = \"cuda\" and net.transport = "
        "\"loopback\"",
        run.arm,
        run.spec.program ? "a program"
                         : fmt::format("train.device = \"{}\", net.transport = \"{}\"",
                                       run.spec.train.device, run.spec.net.transport)));
  }
  return absl::OkStatus();
}

GpuSpread::GpuSpread(const std::vector<int>& gpus) {
  for (const int gpu : gpus) gpus_.push_back({gpu, 0});
}

std::optional<int> GpuSpread::Take() {
  if (gpus_.empty()) return std::nullopt;
  const auto fewest =
      std::ranges::min_element(gpus_, [](const Gpu& a, const Gpu& b) { return a.runs < b.runs; });
  ++fewest->runs;
  return fewest->number;
}

void GpuSpread::GiveBack(std::optional<int> gpu) {
  if (!gpu) return;
  --std::ranges::find(gpus_, *gpu, &Gpu::number)->runs;
}

}  // namespace longhaul
