#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/record/record.h"

namespace longhaul {
namespace {

struct MergeArguments {
  std::string into;
  std::vector<std::string> from;
};

// The folders with a record: the one given, or those right below it, by name.
absl::StatusOr<std::vector<std::string>> RecordsIn(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder + "/" + kRecordFile, error)) return std::vector{folder};
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (std::filesystem::exists(path + "/" + kRecordFile)) found.push_back(path);
  }
  if (error) {
    return absl::NotFoundError(fmt::format("merge from {}: {}", folder, error.message()));
  }
  if (found.empty()) {
    return absl::NotFoundError(
        fmt::format("merge from {}: no {} in it or in a folder of it", folder, kRecordFile));
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::Status MergeRecords(const MergeArguments& arguments) {
  std::vector<Record> sources;
  for (const std::string& folder : arguments.from) {
    ASSIGN_OR_RETURN(const auto found, RecordsIn(folder));
    for (const std::string& path : found) {
      std::error_code error;
      if (std::filesystem::equivalent(path, arguments.into, error)) {
        return absl::InvalidArgumentError(
            fmt::format("merge from {}: it is the folder to merge into", path));
      }
      ASSIGN_OR_RETURN(Record source, Record::Open(path, Record::Mode::kRead));
      sources.push_back(std::move(source));
    }
  }
  absl::StatusOr<Record> into = Record::Open(arguments.into, Record::Mode::kWrite);
  if (!into.ok()) return into.status();
  Record::Taken all;
  for (const Record& source : sources) {
    const auto taken = into->TakeFrom(source);
    if (!taken.ok()) {
      return absl::Status(
          taken.status().code(),
          fmt::format("merge from {}: {}", source.folder(), std::string(taken.status().message())));
    }
    all.runs += taken->runs;
    all.known += taken->known;
    all.again += taken->again;
    all.open += taken->open;
  }
  fmt::print("{} records: {} runs taken into {}/{}, {} already present", sources.size(), all.runs,
             arguments.into, kRecordFile, all.known);
  if (all.again > 0) fmt::print(", {} skipped (arm and seed already complete)", all.again);
  if (all.open > 0) fmt::print(", {} skipped (not ended)", all.open);
  fmt::print("\n");
  return absl::OkStatus();
}

}  // namespace

void AddMergeCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<MergeArguments>();
  CLI::App* command = app.add_subcommand("merge", "Merge records of several machines into one");
  command->group("Results");
  command->footer("Example:\n  longhaul merge results/own node1/records node2/records");
  command->add_option("into", arguments->into, "Folder of the record to merge into")->required();
  command
      ->add_option("from", arguments->from,
                   "Folders with a record, or folders of such folders; nothing there is changed")
      ->required();
  command->callback(Calling(MergeRecords, arguments, exit_status));
}

}  // namespace longhaul
