#include "experiments/train/capture.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/train/safetensors.h"

namespace longhaul {

Capture::Capture(std::string folder, int64_t steps, std::map<std::string, std::string> notes)
    : folder_(std::move(folder)), notes_(std::move(notes)) {
  for (const int64_t percent : {0, 10, 50, 100}) {
    steps_.push_back(std::max<int64_t>(1, (steps * percent + 50) / 100));
  }
}

void Capture::BeginStep(int64_t step) {
  step_ = step;
  wanted_ = std::find(steps_.begin(), steps_.end(), step) != steps_.end();
}

void Capture::Take(int group, int boundary, bool gradient, int64_t microbatch, int64_t rows,
                   std::span<const float> values) {
  kept_[{group, boundary, gradient}][microbatch] = {rows, {values.begin(), values.end()}};
}

absl::Status Capture::EndStep() {
  const auto kept = std::exchange(kept_, {});
  if (kept.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat("make ", folder_, ": ", error.message()));
  for (const auto& [key, microbatches] : kept) {
    const auto& [group, boundary, gradient] = key;
    const char* kind = gradient ? "gradient" : "activation";
    std::vector<SafeTensor> tensors;
    for (const auto& [microbatch, tensor] : microbatches) {
      const auto cols = static_cast<int64_t>(tensor.values.size()) / tensor.rows;
      tensors.push_back(
          {absl::StrCat("microbatch", microbatch), {tensor.rows, cols}, tensor.values});
    }
    std::map<std::string, std::string> metadata = notes_;
    metadata["step"] = absl::StrCat(step_);
    metadata["group"] = absl::StrCat(group);
    metadata["boundary"] = absl::StrCat(boundary);
    metadata["kind"] = kind;
    absl::Status s =
        WriteSafetensors(absl::StrFormat("%s/step%06d-group%d-boundary%d-%s.safetensors", folder_,
                                         step_, group, boundary, kind),
                         tensors, metadata);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace longhaul
