#include "experiments/command/output.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/run/reader.h"

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
  command.add_flag("--json", options.json, kJsonHelp);
  CLI::Option* quiet =
      command.add_flag("-q,--quiet", options.quiet, "Print only errors and the last lines");
  command
      .add_flag("-v,--verbose", options.verbose,
                "Print the resolved spec and every fact, link and table of the record")
      ->excludes(quiet);
}

std::string ErrorJson(const std::string& schema, const absl::Status& error) {
  using nlohmann::ordered_json;
  const ordered_json said =
      error.ok() ? ordered_json(nullptr) : ordered_json(std::string(error.message()));
  return ordered_json{{"schema", schema}, {"error", said}}.dump(
             2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

absl::Status ShowFromRecord(CommandOutput& out, const std::string& what, const Record& record,
                            int64_t id, const absl::Status& outcome) {
  std::vector<std::string> words = {"_show", what, record.folder(), std::to_string(id)};
  if (out.json()) words.emplace_back("--json");
  if (out.quiet()) words.emplace_back("--quiet");
  if (out.detail() == Detail::kAll) words.emplace_back("--verbose");
  std::fflush(nullptr);
  ASSIGN_OR_RETURN(const ReaderAnswer answer,
                   AskReader(std::move(words), std::string(outcome.message())));
  if (out.json() && !answer.output.empty()) out.Document(answer.output);
  if (!out.json()) fmt::print("{}", answer.output);
  if (answer.status == 0) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("show what {}/{} has of it: the line above says why not; what was recorded stays",
                  record.folder(), kRecordFile));
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
