#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// The table [files] of a run spec, whose other keys stand in `spec` already: what the files must
// hold that keys name.
//
//   [files]
//   "data.source" = "a3f5..."   # SHA-256, as FileContent::sha256
//
// A run is refused where a file holds something else. What a run's own processes get has bytes,
// files and a stamp after the hash. InvalidArgument with the line: a key that names no file or is
// not given, a text that is no hash.
absl::Status ReadFilesTable(const TomlValue& root, RunSpec& spec);

// The table that ReadFilesTable reads back; "" for none. It may follow ToToml(spec).
std::string FilesTableText(const RunSpec& spec);

}  // namespace longhaul
