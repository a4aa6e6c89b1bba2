#pragma once

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// [boundary.cuts] of a run spec, whose other keys stand in `spec` already. A table that is not
// there leaves `spec` as it is. InvalidArgument with the line: a key that is no boundary of the
// spec's stages, an unknown codec, or codecs of all boundaries beside those of single ones.
absl::Status ReadBoundaryCuts(const TomlValue& root, const SpecNames& names, RunSpec& spec);

// What boundary.subspace cannot go with, once every table has been read: InvalidArgument with the line.
absl::Status CheckSubspace(const TomlValue& root, const RunSpec& spec);

// The tables that ReadBoundaryCuts reads back.
SpecLines BoundaryCutsLines(const RunSpec& spec);

}  // namespace longhaul
