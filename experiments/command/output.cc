#include "experiments/command/output.h"

#include <cstdio>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/record/record.h"
#include "experiments/report/result_json.h"

namespace longhaul {

std::string Typed(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789./_-=:,+") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string RecordLine(const std::string& folder) {
  return fmt::format("record: {}/{}   report: longhaul report {}\n", folder, kRecordFile,
                     Typed(folder));
}

void AddOutputOptions(CLI::App& command, OutputOptions& options) {
  command.add_flag("--json", options.json,
                   "one JSON document on stdout (docs/records.md); progress goes to stderr");
  CLI::Option* quiet =
      command.add_flag("--quiet", options.quiet, "Print errors and the last lines alone");
  command
      .add_flag("--verbose", options.verbose,
                "Print everything: the resolved spec, every fact, link and table of the record")
      ->excludes(quiet);
}

CommandOutput::CommandOutput(const OutputOptions& options)
    : options_(options),
      nowhere_(options.quiet ? std::fopen("/dev/null", "we") : nullptr),
      progress_(nowhere_       ? nowhere_.get()
                : options.json ? stderr
                               : stdout) {}

void CommandOutput::Document(const std::string& json) {
  documented_ = true;
  std::fputs(json.c_str(), stdout);
  std::fflush(stdout);
}

int CommandOutput::Finish(const std::string& schema, const absl::Status& status) {
  if (options_.json && !documented_) Document(ErrorJson(schema, status));
  return Fail(status);
}

}  // namespace longhaul
