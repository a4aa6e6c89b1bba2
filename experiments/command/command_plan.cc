// `_plan`: the choices of a [plan] with the best placement of each, for Python, which ranks them
// (python/longhaul/planning/plan).
//
// Standard input: {"spec": FILE, "sets": ["a.b=c"...], "pairs": [codec pair...]}; without "pairs" nothing is placed.
// Standard output: what [plan] says, "links" with their nodes' names, and of each choice what it is, its step and placement,
// what its boundaries would send with each pair, and the runs that --write and --next make of it.
#include <iostream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "experiments/train/model_of_spec.h"
#include "planning/plan/link_matrix.h"
#include "planning/plan/plan.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

using nlohmann::ordered_json;

ordered_json BytesOf(const RunSpec& run, const ordered_json& pairs) {
  ordered_json bytes = ordered_json::object();
  for (const std::string pair : pairs) {
    const std::optional<plan::BothWays> both = plan::PairBytes(run, pair);
    bytes[pair] = both ? ordered_json({both->there, both->back}) : ordered_json();
  }
  return bytes;
}

ordered_json RowOf(const plan::Plan& whole, const plan::PlanRow& row, ordered_json pairs) {
  const RunSpec& run = row.choice.spec;
  pairs.push_back(row.choice.codec);
  ordered_json nodes = ordered_json::array();
  for (const int node : row.placement.nodes)
    nodes.push_back(whole.links.nodes[static_cast<size_t>(node)].name);
  return {{"schedule", run.schedule.kind},
          {"chunks", run.schedule.chunks},
          {"stages", run.stages()},
          {"ranks", run.ranks()},
          {"groups", run.outer.groups},
          {"codecs", row.choice.codec},
          {"forward", run.boundary.forward},
          {"backward", run.boundary.backward},
          {"algorithm", run.outer.algorithm},
          {"exchanges_gradients", ExchangesGradients(run.outer.algorithm)},
          {"inner_steps", run.outer.inner_steps},
          {"outer_codec", row.choice.outer_codec},
          {"outer_lr", run.outer.lr},
          {"outer_momentum", run.outer.momentum},
          {"batch_rows", run.train.batch_rows},
          {"tokens_per_step", TokensPerStep(run)},
          {"parameters", plan::Parameters(run)},
          {"pair_bytes", BytesOf(run, pairs)},
          {"step_s", row.placement.seconds},
          {"least_step_s", row.least_step_s},
          {"exact", row.placement.exact},
          {"nodes", nodes},
          {"worker_bytes", row.worker_bytes},
          {"within", row.within},
          {"links_toml", plan::TopologyToml(plan::PlacedLinks(whole, row))},
          {"timed_toml", ToToml(plan::TimedRun(row, "LINKS"))},
          {"reference_toml", ToToml(plan::ReferenceOf(run))}};
}

absl::StatusOr<ordered_json> AnswerPlan(const ordered_json& request) {
  const auto spec =
      plan::ReadPlanSpec(request.at("spec").get<std::string>(),
                         request.at("sets").get<std::vector<std::string>>(), CatalogNames());
  if (!spec.ok()) return spec.status();
  ordered_json answer = {{"target_loss_nat", spec->target_loss_nat},
                         {"curve", spec->curve},
                         {"calibrations", spec->calibrations},
                         {"links", spec->links},
                         {"ranks", spec->run.ranks()},
                         {"groups", spec->run.outer.groups}};
  if (!request.contains("pairs")) return answer;
  ASSIGN_OR_RETURN(const plan::Plan placed, plan::PlaceChoices(*spec, CatalogNames(), RankBytes));
  answer["link_notes"] = placed.link_notes;
  answer["lossy"] = std::any_of(placed.links.paths.begin(), placed.links.paths.end(),
                                [](const PathSpec& path) { return MeanLoss(path) > 0; });
  answer["left_out"] = ordered_json::array();
  for (const plan::LeftOut& left : placed.left_out)
    answer["left_out"].push_back({{"what", left.what}, {"why", left.why}});
  answer["rows"] = ordered_json::array();
  for (const plan::PlanRow& row : placed.rows)
    answer["rows"].push_back(RowOf(placed, row, request["pairs"]));
  return answer;
}

absl::Status Answer() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    ASSIGN_OR_RETURN(const ordered_json answer, AnswerPlan(ordered_json::parse(text)));
    fmt::print("{}\n", answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("_plan: {}", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand("_plan", "")->group("");
  command->callback([exit_status] { *exit_status = Fail(Answer()); });
}

}  // namespace longhaul
