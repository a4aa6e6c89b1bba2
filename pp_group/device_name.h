#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace longhaul {

// Names of devices, torch-free: "cpu"; "cuda:N" and "cuda", which is "cuda:0"; "cuda:*", with which
// the ranks of a machine take its GPUs in turn: the r-th has GPU r modulo their number.
inline constexpr std::string_view kGpuOfRank = "cuda:*";

// InvalidArgument: none of these; says which there are.
absl::Status CheckDeviceName(std::string_view device);

// FailedPrecondition: a GPU that a machine with `gpus` of them, which torch can use, does not have.
absl::Status CheckGpuIsThere(std::string_view device, int gpus);

// The GPU of that rank on a machine with `gpus` of them, 1 or more; nullopt: none, by its name.
std::optional<int> GpuOfRank(std::string_view device, int rank, int gpus);

// The same as a name that says nothing of ranks: "cuda:*" becomes "cuda:N", all others stay.
std::string DeviceOfRank(const std::string& device, int rank, int gpus);

// How many of `ranks` ranks of one machine are on the GPU that most of them have; 0 where none has
// one.
int RanksOfOneGpu(std::string_view device, int ranks, int gpus);

}  // namespace longhaul
