#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// What the variable LONGHAUL_INTERFACE names; "" where it is empty or not set.
std::string InterfaceOfEnvironment();

struct ChosenInterface {
  std::string name;
  std::string why;  // for descriptions: "named", "the only one up", "it leads to 10.0.0.1"
};

// The interface that `wanted` names, else LONGHAUL_INTERFACE. Where neither does: the only one
// besides lo that is up; of several, the one that leads to the first of the hosts `toward` that is
// not reached over lo.
// FailedPrecondition: none, several that no host tells apart, or unknown to this process's /sys
// (which UCX reads): the message lists what there is.
absl::StatusOr<ChosenInterface> ChooseInterface(const std::string& wanted,
                                                const std::vector<std::string>& toward = {});

// /sys/class/net/DEV/statistics/tx_bytes.
absl::StatusOr<int64_t> InterfaceTxBytes(const std::string& interface);

// Equal for two processes exactly when they share host and network namespace.
uint64_t NetworkNamespaceId();

// Names of environment variables that UCX would read and that could change how bytes travel: not
// what it logs, counts or does on a signal, and not the settings of hardware that TCP never uses.
std::vector<std::string> UcxVariables();

}  // namespace longhaul
