#pragma once

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"

namespace longhaul {

// One run of a campaign whose base has a table [program]: a program of the user's is trained, and
// of the rest of a run's spec only this is read.
//
//   [program]
//   command = ["python", "train.py"]
//   folder = "/home/me/model"        # may be left out: the folder of the command
//   timeout_s = 3600                 # may be left out
//   files = ["model.py"]             # may be left out: hashed like the words of the command
//   environment = { LR = "1e-3" }    # may be left out
//   [schedule]
//   stages = 2                       # S, of the reference too; with groups = 1 the ranks
//   [outer]
//   groups = 1                       # these two may be left out, and so may tables [boundary] (in
//   codec = "none"                   # an arm: forward, backward) and [limits] (threads)
//
// InvalidArgument with file and line, as ReadRunSpec; other tables of a run's spec are refused.
absl::StatusOr<RunSpec> ReadProgramSpec(const TomlValue& root, const SpecNames& names);
bool HasProgram(const TomlValue& root);

// The table [program] of a resolved spec.
SpecLines ProgramLines(const RunSpec& spec);

}  // namespace longhaul
