#pragma once

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// InvalidArgument, one line: a key of `given` that has another value than its default, and that nothing
// of this run looks at, as schedule.depth beside "1f1b". `given`: a run's file, or what an arm adds
// to what all arms of its campaign share; that may be idle in some of them. Keys that the reader refuses
// for other reasons (model.experts of a "gpt") are not here, nor those of [net], which are kept when
// loopback is set over ucx, nor those of [outer] where the groups of no round meet.
absl::Status CheckIdleKeys(const TomlValue& given, const RunSpec& spec);

}  // namespace longhaul
