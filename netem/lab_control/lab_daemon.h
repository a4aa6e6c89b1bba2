#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "netem/emulator.h"
#include "netem/gateway/gateway.h"
#include "netem/lab_control/lab_store.h"
#include "netem/machine/tap_ceiling.h"

namespace longhaul {

// What `up` builds.
struct LabSpec {
  std::string name;
  Topology topology;
  std::optional<EmulatorKind> emulator;  // nullopt: what ProbeEmulatorKind says
  EmulatorOptions options;
  // Where given, tap refuses rates above it (CheckRates).
  std::optional<TapCeiling> ceiling = std::nullopt;
  std::optional<GatewaySpec> gateway = std::nullopt;  // none: no way out
  // The lab ends with the process that starts it, however that ends; else it stays until it is
  // taken down.
  bool with_caller = false;
};

// Starts a daemon that owns the lab `spec.name`: a detached private lab (lab.h) whose body builds
// the emulator and answers on the store's socket until it is told to end or is killed; the kernel
// then removes every process, namespace and device of it. Returns once the lab stands, or with what
// went wrong; then nothing is left. Killing the caller before it returns ends the lab as well.
// Call from the main thread before other threads exist. AlreadyExists: a lab of that name is up.
absl::Status StartLabDaemon(LabStore& store, const LabSpec& spec);

}  // namespace longhaul
