#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// The engine writes records; Python reads them. A verb below is a module of python/longhaul/commands, which `longhaul`
// becomes as git becomes `git-foo`.
struct ReaderVerb {
  std::string_view name;
  const char* description;
};
inline constexpr ReaderVerb kReaderVerbs[] = {
    {"compare", "are two runs of one record bit-identical? Exit status 1 when they are not"},
    {"export", "the record for other tools; reads only, and sends nothing anywhere"},
    {"follow",
     "logs a record's series while runs write it: TensorBoard, Trackio, Weights & Biases"},
    {"import", "models and data that exist, for specs; fetches nothing (docs/import.md)"},
    {"list", "runs and campaigns of a record, their state and numbers"},
    {"plan", "which schedule, codec, H, outer step and placement reaches a loss first"},
    {"report", "a self-contained HTML page with figures, CSV beside it; reads only the record"},
    {"scale", "a run in simulated time: many groups, faults, what-ifs; nothing is trained"},
    {"simulate", "the planning model: what compute a network of nodes delivers"},
};
bool IsReaderVerb(std::string_view word);

// The interpreter: LONGHAUL_PYTHON of the environment, which the package's own script sets, or the one whose torch the
// build found.
std::string ReaderPython();

// Becomes the interpreter that runs `longhaul` with these words. `--python FILE` among them names another one. Returns
// only a failure.
absl::Status BecomeReader(std::vector<std::string> words);

// Runs it and waits. `input` goes to its standard input.
struct ReaderAnswer {
  int status = 0;      // its exit status; 128 + n after signal n
  std::string output;  // what it printed; its errors go where ours go
};
absl::StatusOr<ReaderAnswer> AskReader(std::vector<std::string> words, const std::string& input);

}  // namespace longhaul
