#pragma once

#include <string>

#include "absl/status/status.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// The rule for every path that a TOML file names: it counts from the folder of that file; a path given
// on the command line (--set) counts from the working folder. Rewrites the keys of `root` that name
// files or folders (SpecKey::names, program.folder, timing.profiles), also in each [[arm]]. `file`:
// as `root` was read from it.
absl::Status CountPathsFromFile(const std::string& file, TomlValue& root);

// "" and absolute paths as they are; else `path` below the folder of `file`, as short as it can be
// written.
std::string FromFolderOf(const std::string& file, const std::string& path);

}  // namespace longhaul
