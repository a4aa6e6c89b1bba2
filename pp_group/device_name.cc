#include "pp_group/device_name.h"

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

absl::Status CheckDeviceName(std::string_view device) {
  if (device == "cpu" || device == kGpuOfRank || GpuOfRank(device, 0, 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("device '", std::string(device), "', want cpu, cuda, cuda:N or cuda:*"));
}

absl::Status CheckGpuIsThere(std::string_view device, int gpus) {
  const std::string what = absl::StrCat("device '", std::string(device), "': ");
  if (gpus == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, "no GPU that this torch can use; want cpu, or a CUDA build of torch and a driver ",
        "that it finds"));
  }
  if (*GpuOfRank(device, 0, gpus) < gpus) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, "this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs", ", cuda:0",
                   gpus == 1 ? "" : absl::StrCat(" to cuda:", gpus - 1)));
}

std::optional<int> GpuOfRank(std::string_view device, int rank, int gpus) {
  if (device == "cuda") return 0;
  if (device == kGpuOfRank) return rank % gpus;
  const std::string kPrefix = "cuda:";
  int index = -1;
  const bool numbered = device.starts_with(kPrefix) && device.size() <= kPrefix.size() + 3 &&
                        absl::SimpleAtoi(std::string(device.substr(kPrefix.size())), &index);
  // What is not written as we would write it ("cuda:01", "cuda:+1") is no name.
  if (!numbered || index < 0 || device != absl::StrCat(kPrefix, index)) return std::nullopt;
  return index;
}

std::string DeviceOfRank(const std::string& device, int rank, int gpus) {
  if (device != kGpuOfRank) return device;
  return absl::StrCat("cuda:", *GpuOfRank(device, rank, gpus));
}

int RanksOfOneGpu(std::string_view device, int ranks, int gpus) {
  std::map<int, int> of_gpu;
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (const auto gpu = GpuOfRank(device, rank, gpus)) most = std::max(most, ++of_gpu[*gpu]);
  }
  return most;
}

}  // namespace longhaul
