#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// What a [program] needs to be there. `spec` has one.

// Where its command runs.
std::filesystem::path FolderOfProgram(const RunSpec& spec);
// Whether there is such a program, folder and files. NotFound, in one line.
absl::Status CheckProgram(const RunSpec& spec);
// The words of its command and of program.files that are files, as paths from here. Their contents
// are part of the plan.
std::vector<std::string> FilesOfProgram(const RunSpec& spec);

}  // namespace longhaul
