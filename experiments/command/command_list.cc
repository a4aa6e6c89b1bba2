#include <algorithm>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/report/listing.h"
#include "experiments/report/result_json.h"

namespace longhaul {
namespace {

constexpr char kSchema[] = "longhaul.list/1";

absl::Status List(const std::string& folder, CommandOutput& out) {
  const absl::StatusOr<std::vector<ListedRecord>> records = ListRecordsBelow(folder);
  if (!records.ok()) return records.status();
  if (out.json()) {
    out.Document(ListJson(*records));
  } else {
    fmt::print("{}", ListingText(*records, folder));
  }
  const auto unread = std::count_if(records->begin(), records->end(),
                                    [](const ListedRecord& r) { return !r.error.empty(); });
  if (unread == 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} of {} records in '{}' cannot be read (listed with why)", unread,
                  records->size(), folder));
}

}  // namespace

void AddListCommand(CLI::App& app, int* exit_status) {
  auto folder = std::make_shared<std::string>("results");
  auto options = std::make_shared<OutputOptions>();
  CLI::App* command =
      app.add_subcommand("list", "runs and campaigns of a record, their state and numbers");
  command->add_option("results", *folder,
                      "folder of a record, or of folders with records (default: results)");
  command->add_flag("--json", options->json, "one JSON document on stdout (docs/records.md)");
  command->callback([folder, options, exit_status] {
    CommandOutput out(*options);
    *exit_status = out.Finish(kSchema, List(*folder, out));
  });
}

}  // namespace longhaul
