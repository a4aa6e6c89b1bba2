#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "experiments/estimates/table.h"
#include "experiments/record/record.h"

namespace longhaul {

// A word of a command as one types it in a shell: quoted where it has to be.
std::string Typed(const std::string& word);

// "record: FILE   report: longhaul report FOLDER\n".
std::string RecordLine(const std::string& folder);

// The document that --json prints where nothing had been recorded yet: schema and error alone.
std::string ErrorJson(const std::string& schema, const absl::Status& error);

struct OutputOptions {
  bool json = false;   // one JSON document on stdout and nothing else there
  bool quiet = false;  // no progress: errors and the last lines alone
  bool verbose = false;
};
// --json, --quiet and --verbose.
void AddOutputOptions(CLI::App& command, OutputOptions& options);

// Where a command's words go. Progress: stdout; stderr with --json, so that stdout holds one
// document; nowhere with --quiet. Results: stdout.
class CommandOutput {
 public:
  explicit CommandOutput(const OutputOptions& options);
  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }
  Detail detail() const { return options_.verbose ? Detail::kAll : Detail::kScreen; }
  std::FILE* progress() const { return progress_; }
  // What nobody may miss who reads the figures: with the progress; on stderr with --quiet alone (a
  // document has it in its "notes").
  std::FILE* warnings() const { return quiet() && !json() ? stderr : progress_; }
  // Prints the document that --json promises. Once.
  void Document(const std::string& json);
  // At the end of the command: with --json and no document yet, prints one of schema and error.
  // Returns the exit status; an error is told on stderr either way.
  int Finish(const std::string& schema, const absl::Status& status);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const OutputOptions options_;
  std::unique_ptr<std::FILE, Close> nowhere_;
  std::FILE* progress_;
  bool documented_ = false;
};

// What the record says at the end of a command, by Python: `what` of python/longhaul/commands/show.py, `id` the run or the
// experiment, `outcome` how it ended. The document with --json.
absl::Status ShowFromRecord(CommandOutput& out, const std::string& what, const Record& record,
                            int64_t id, const absl::Status& outcome);

}  // namespace longhaul
