#include "netem/emulator.h"

#include "netem/netem_emulator.h"
#include "netem/tap_emulator.h"

namespace longhaul {

std::string_view ToString(EmulatorKind kind) {
  return kind == EmulatorKind::kNetem ? "netem" : "tap";
}

absl::StatusOr<std::unique_ptr<Emulator>> BuildEmulator(EmulatorKind kind, const Topology& topology,
                                                        const EmulatorOptions& options) {
  if (auto s = Validate(topology); !s.ok()) return s;
  return kind == EmulatorKind::kNetem ? BuildNetemEmulator(topology, options)
                                      : BuildTapEmulator(topology, options);
}

}  // namespace longhaul
