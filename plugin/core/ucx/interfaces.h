#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// The interface that `wanted` names, or the only one besides lo when it is empty.
// FailedPrecondition: none, several, or unknown to this process's /sys (which UCX reads): the
// message lists what there is.
absl::StatusOr<std::string> ChooseInterface(const std::string& wanted);

// /sys/class/net/DEV/statistics/tx_bytes.
absl::StatusOr<int64_t> InterfaceTxBytes(const std::string& interface);

// Equal for two processes exactly when they share host and network namespace.
uint64_t NetworkNamespaceId();

// Names of environment variables that UCX would read.
std::vector<std::string> UcxVariables();

}  // namespace longhaul
