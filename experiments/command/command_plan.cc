#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/record/whole_file.h"
#include "experiments/report/html.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "planning/plan/link_matrix.h"
#include "planning/plan/next_campaign.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_tables.h"

namespace longhaul {
namespace {

struct PlanOptions {
  std::string spec, links, csv, next, write;
  std::vector<std::string> set;
  size_t rows = 12;
  bool json = false;
};

// choice-1 and choice-2 as runs over shaped links.
absl::Status WriteChoices(const plan::Plan& plan, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return absl::UnavailableError(
        fmt::format("cannot make the folder {}: {}", folder, failed.message()));
  }
  for (size_t i = 0; i < 2 && i < plan.rows.size(); ++i) {
    const std::string name = fmt::format("{}/choice-{}", folder, i + 1);
    const std::string links = name + "-links.toml";
    const plan::PlanRow& row = plan.rows[i];
    for (const auto& [file, text] :
         {std::pair(links, plan::TopologyToml(plan::PlacedLinks(plan, row))),
          {name + ".toml", ToToml(plan::TimedRun(row, links))}}) {
      if (absl::Status s = WriteWholeFile(file, text); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status RunPlan(const PlanOptions& options) {
  std::vector<std::string> sets = options.set;
  if (!options.links.empty()) sets.push_back("plan.links=" + options.links);
  const absl::StatusOr<plan::PlanSpec> spec =
      plan::ReadPlanSpec(options.spec, sets, CatalogNames());
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<plan::Plan> plan = plan::MakePlan(*spec, CatalogNames(), RankBytes);
  if (!plan.ok()) return plan.status();
  std::string typed = Typed(options.spec);
  for (const std::string& set : sets) typed += " --set " + Typed(set);
  const std::string next = plan::NextText(*plan, typed);
  if (!options.csv.empty()) {
    if (absl::Status s = WriteWholeFile(options.csv, Csv(plan::PlanCsv(*plan))); !s.ok()) return s;
  }
  if (!options.write.empty()) {
    if (absl::Status s = WriteChoices(*plan, options.write); !s.ok()) return s;
  }
  if (options.json) {
    fmt::print("{}", plan::PlanJson(*plan, next));
  } else {
    fmt::print("{}\n{}\n", TextOf(plan::PlanTable(*plan, options.rows)), next);
  }
  if (options.next.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> campaign = plan::NextCampaign(*plan);
  if (!campaign.ok()) return campaign.status();
  return WriteWholeFile(options.next, *campaign);
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "which schedule, codec, H, outer step and placement reaches a loss first");
  command->footer(
      "The spec is a run's with [compute] and a table [plan] (docs/plan.md): target_loss_nat, curve,\n"
      "calibration, and lists of schedules, codecs, inner_steps, algorithms, outer_codecs; links.\n"
      "  longhaul net probe LAB --json > matrix.json\n"
      "  longhaul plan examples/plan/plan.toml --links matrix.json");
  command->add_option("spec", options->spec, "run spec with [compute] and [plan]")->required();
  command->add_option("--set", options->set, "override a key: plan.target_loss_nat=2.9")
      ->take_all();
  command->add_option("--links", options->links,
                      "a matrix that `net probe --json` wrote, a profile or a topology file");
  command->add_option("--rows", options->rows, "of the table; 0: all")->capture_default_str();
  command->add_option("--csv", options->csv, "write every row into this file");
  command->add_option("--write", options->write,
                      "a folder for the first two as runs over shaped links, compute slept");
  command->add_option("--next", options->next,
                      "write the campaign that decides between the first two into this file");
  command->add_flag("--json", options->json, "one JSON document on stdout");
  command->callback([options, exit_status] {
    const absl::Status status = RunPlan(*options);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace longhaul
