// "plan" of `_clock`: the choices of a [plan] with the best placement of each, which Python ranks (python/longhaul/planning/plan).
//
// Question: {"spec": FILE, "sets": ["a.b=c"...], "pairs": [codec pair...], "matrix": {"nodes": [NAME...], "paths": [{"from",
// "to", "delay_ms", "loss", "rate_mbit", "queue_packets"}...]}}; without "pairs" nothing is placed, and without a matrix links
// are what the spec names.
// Answer: what [plan] says, "links" with their nodes' names, and of each choice what it is, its step and placement,
// what its boundaries would send with each pair, and the runs that --write and --next make of it.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/planning/plan.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "netem/topology/topology_file.h"
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
          {"step_s", row.step_s},
          {"sent_bytes", row.sent_bytes},
          {"compute_cost", row.compute_cost},
          {"traffic_cost", row.traffic_cost},
          {"least_step_s", row.least_step_s},
          {"exact", row.placement.exact},
          {"nodes", nodes},
          {"worker_bytes", row.worker_bytes},
          {"within", row.within},
          {"links_toml", plan::TopologyToml(plan::PlacedLinks(whole, row))},
          {"timed_toml", ToToml(plan::TimedRun(row, "LINKS"))},
          {"reference_toml", ToToml(plan::ReferenceOf(run))}};
}

absl::StatusOr<Topology> LinksOf(const plan::PlanSpec& spec, const ordered_json& request) {
  if (!request.contains("matrix")) {
    return MeshNamed(spec.links, static_cast<int>(spec.run.workers()));
  }
  Topology links{.profile = spec.links, .nodes = {}, .paths = {}};
  for (const ordered_json& name : request["matrix"].at("nodes")) {
    links.nodes.push_back({.name = name.get<std::string>(), .access = std::nullopt});
  }
  for (const ordered_json& one : request["matrix"].at("paths")) {
    PathSpec path{.from = one.at("from").get<int>(),
                  .to = one.at("to").get<int>(),
                  .rate = std::nullopt,
                  .delay = absl::Milliseconds(one.at("delay_ms").get<double>()),
                  .jitter = absl::ZeroDuration()};
    path.loss_prob = one.at("loss").get<double>();
    if (const ordered_json& mbit = one.at("rate_mbit"); !mbit.is_null()) {
      path.rate = Mbit(mbit.get<double>());
    }
    if (const ordered_json& packets = one.at("queue_packets"); !packets.is_null()) {
      path.queue = QueueDepth{QueueDepth::Unit::kPackets, packets.get<double>()};
    }
    // Not Validate: nobody looks these names up, so that a node may be "10.1.2.3".
    if (absl::Status s = ValidatePath(links, path); !s.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", spec.links, std::string(s.message())));
    }
    links.paths.push_back(path);
  }
  return links;
}

absl::StatusOr<ordered_json> Placed(const ordered_json& request) {
  const auto spec =
      plan::ReadPlanSpec(request.at("spec").get<std::string>(),
                         request.at("sets").get<std::vector<std::string>>(), CatalogNames());
  if (!spec.ok()) return spec.status();
  ordered_json answer = {{"target_loss_nat", spec->target_loss_nat},
                         {"curve", spec->curve},
                         {"calibrations", spec->calibrations},
                         {"links", spec->links},
                         {"rank_by", spec->rank_by},
                         {"priced", spec->price_per_hour.has_value()},
                         {"ranks", spec->run.ranks()},
                         {"groups", spec->run.outer.groups}};
  if (!request.contains("pairs")) return answer;
  ASSIGN_OR_RETURN(Topology links, LinksOf(*spec, request));
  ASSIGN_OR_RETURN(const plan::Plan placed,
                   plan::PlaceChoices(*spec, CatalogNames(), std::move(links), RankBytes));
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

}  // namespace

absl::Status AnswerPlan(const ordered_json& question) {
  ASSIGN_OR_RETURN(const ordered_json answer, Placed(question));
  fmt::print("{}\n", answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  return absl::OkStatus();
}

}  // namespace longhaul
