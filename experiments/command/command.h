#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"

namespace longhaul {

// One file per subcommand. Each Add registers its options and a callback that sets *exit_status:
// 0 done; 1 failed, one clear line on stderr; 2 usage; 75 stopped, again (`measure --run`); 130
// interrupted.
void AddDoctorCommand(CLI::App& app, int* exit_status);
void AddNetCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_status);
void AddRunCommand(CLI::App& app, int* exit_status);
// *program: what it runs in every rank
void AddLaunchCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_status);
void AddMeasureCommand(CLI::App& app, int* exit_status);
// Those of kReaderVerbs in this group of --help.
void AddReaderCommands(CLI::App& app, std::string_view group, int* exit_status);
void AddExportWeightsCommand(CLI::App& app, int* exit_status);  // for Python
void AddMergeCommand(CLI::App& app, int* exit_status);
void AddIngestCommand(CLI::App& app, int* exit_status);
void AddFrameBytesCommand(CLI::App& app, int* exit_status);  // for Python
void AddPriceCommand(CLI::App& app, int* exit_status);
// For Python: `answers` by question, beside those that every binary has.
using ClockAnswer = std::function<absl::Status(const nlohmann::ordered_json& question)>;
void AddClockCommand(CLI::App& app, std::map<std::string, ClockAnswer> answers, int* exit_status);
absl::Status AnswerScale(const nlohmann::ordered_json& question);
absl::Status AnswerPlan(const nlohmann::ordered_json& question);
void AddScheduleCommand(CLI::App& app, int* exit_status);
void AddCodecsCommand(CLI::App& app, int* exit_status);
void AddSpecCommand(CLI::App& app, int* exit_status);
void AddCompletionCommand(CLI::App& app, int* exit_status);  // the last: of all before it
void AddWorkerCommand(CLI::App& app, int* exit_status);
void AddWeightsCommand(CLI::App& app, int* exit_status);

// Help of options that several commands have.
inline constexpr char kSpecHelp[] = "Run spec, a TOML file";
inline constexpr char kSetHelp[] = "Override a key of the spec (repeatable)";
inline constexpr char kJsonHelp[] = "Print one JSON document on stdout";
inline constexpr char kLabHelp[] = "Name of the lab, as `net list` prints it";

// Shows the help of `app` and its commands in one form, which python/longhaul/commands has too.
void UseHelpFormat(CLI::App* app);

// Parses a command line and runs what it asks for; returns main's status. The words of a program to
// run (`net exec LAB/NODE [--] CMD...`, `net run LINKS -- CMD...`, `launch .. -- CMD...`) are its own, whatever they look
// like: they go to *program, unseen by the parser.
int RunCommandLine(CLI::App& app, int argc, char** argv, std::vector<std::string>* program,
                   const int* exit_status);

// Gives descriptors 0 to 2 that the caller closed to /dev/null, the wrong way round: a file that is
// opened later must not take their place and get what is printed, and printing still fails.
void HoldStandardStreams();

// "longhaul: <message>" on stderr; returns 1 (130 for Cancelled). 0 and no word for OK.
int Fail(const absl::Status& status);

// A callback that does `work` with what the parser has put into `arguments`, and tells how it ended.
template <typename Arguments>
std::function<void()> Calling(absl::Status (*work)(const Arguments&),
                              std::shared_ptr<Arguments> arguments, int* exit_status) {
  return [=] { *exit_status = Fail(work(*arguments)); };
}

}  // namespace longhaul
