#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/report/listing.h"
#include "experiments/report/result_json.h"
#include "experiments/run/ingest.h"
#include "experiments/spec/arm_name.h"
#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

struct IngestArguments {
  std::string events;
  std::string results;
  std::string arm;
  OutputOptions output;
};

absl::Status IngestAndShow(const IngestArguments& arguments, CommandOutput& out) {
  if (absl::Status s = CheckArmName("--arm", arguments.arm); !s.ok()) return s;
  const auto events = ReadEventFolder(arguments.events);
  if (!events.ok()) return events.status();
  const auto spec = LoadRunSpec(arguments.events + "/spec.toml", {}, CatalogNames());
  if (!spec.ok()) return spec.status();
  if (absl::Status s = CheckEvents(*spec, *events); !s.ok()) return s;
  auto record = Record::Open(arguments.results, Record::Mode::kWrite);
  if (!record.ok()) return record.status();
  if (const auto settled = record->SettleDeadRuns(); !settled.ok()) return settled.status();
  const auto experiment =
      record->BeginExperiment({.kind = ExperimentKind::kRun, .name = arguments.arm});
  if (!experiment.ok()) return experiment.status();
  const auto ingested = IngestEvents(*record, *experiment, arguments.arm, *spec, *events);
  if (!ingested.ok()) return ingested.status();
  for (const std::string& line : ingested->notices) {
    std::fputs((line + "\n").c_str(), out.progress());
  }
  if (out.json()) {
    out.Document(RunJson(*record, ingested->run, ingested->outcome));
    return ingested->outcome;
  }
  const auto line = RunLine(*record, ingested->run);
  if (!line.ok()) return line.status();
  fmt::print("{}", *line);
  return ingested->outcome;
}

}  // namespace

void AddIngestCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<IngestArguments>();
  CLI::App* command = app.add_subcommand(
      "ingest", "a record of what workers under torchrun or Slurm told (worker --events FOLDER)");
  command->add_option("events", arguments->events, "the folder of events, of all hosts")
      ->required();
  command->add_option("--results", arguments->results, "folder of the record")->required();
  command->add_option("--arm", arguments->arm, "name of this configuration in the record")
      ->default_val("workers");
  AddOutputOptions(*command, arguments->output);
  command->callback([arguments, exit_status] {
    CommandOutput out(arguments->output);
    *exit_status = out.Finish("longhaul.run/1", IngestAndShow(*arguments, out));
  });
}

}  // namespace longhaul
