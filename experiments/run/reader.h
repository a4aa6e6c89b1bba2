#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/python_command.h"

namespace longhaul {

// The engine writes records; Python reads them. A verb below is a module of python/longhaul/commands, which `longhaul`
// becomes as git becomes `git-foo`.
struct ReaderVerb {
  std::string_view name;
  std::string_view group;  // of --help
  const char* description;
};
inline constexpr ReaderVerb kReaderVerbs[] = {
    {"list", "Results", "List records with their runs and campaigns"},
    {"report", "Results", "Write a page with tables, figures and CSV files of a record"},
    {"compare", "Results", "Check whether two runs of a record are bit-identical"},
    {"export", "Results", "Export a record to Parquet, TensorBoard, W&B, MLflow or safetensors"},
    {"follow", "Results", "Log a record live to TensorBoard, Trackio or Weights & Biases"},
    {"plan", "Plan", "Rank schedules, codecs, outer steps and placements by time to a loss"},
    {"scale", "Plan", "Simulate a run with many groups, faults and links"},
    {"simulate", "Plan", "Evaluate the planning model with assumed or measured factors"},
    {"import", "Data and codecs", "Import models, text and token files for specs"},
    {"help", "Setup", "Print a page of the documentation as text, or list the pages"},
};
bool IsReaderVerb(std::string_view word);

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
