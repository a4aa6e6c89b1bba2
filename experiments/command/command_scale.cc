// "scale" of `_clock`: runs in simulated time, which Python sweeps and tabulates (python/longhaul/planning/scale.py).
//
// Question: {"spec": FILE, "sets": ["a.b=c"...], "points": [["a.b=c"...]...], "seeds": N}. Answer, a line for each point as
// it is done: {"stages", ..., "seeds": [{"seed", ..., "by_round": [...] where there is one point and seed}]}.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/planning/scale.h"
#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

using nlohmann::ordered_json;

ordered_json SeedOf(const scale::ScaleResult& r, bool rounds) {
  ordered_json out = {{"seed", r.seed},
                      {"rounds", r.rounds},
                      {"faults", r.faults},
                      {"seconds", r.seconds},
                      {"round_mean_s", r.round_mean_s},
                      {"round_p50_s", r.round_p50_s},
                      {"round_p95_s", r.round_p95_s},
                      {"round_max_s", r.round_max_s},
                      {"tokens_counted", r.tokens_counted},
                      {"tokens_lost", r.tokens_lost},
                      {"goodput_tokens_per_s", r.goodput()},
                      {"utilisation", r.utilisation},
                      {"exchange_s", r.exchange_s},
                      {"ended_early", r.ended_early}};
  if (rounds) out["by_round"] = ordered_json::array();
  for (const scale::RoundResult& round : rounds ? r.by_round : std::vector<scale::RoundResult>()) {
    out["by_round"].push_back({{"end_s", round.end_s}, {"members", round.members}});
  }
  return out;
}

absl::StatusOr<ordered_json> PointOf(TomlValue root, const ordered_json& sets, int64_t seeds,
                                     bool rounds) {
  for (const std::string set : sets) {
    RETURN_IF_ERROR(SetByPath(root, set));
  }
  ASSIGN_OR_RETURN(const scale::ScaleSpec spec,
                   scale::ReadScaleSpec(std::move(root), CatalogNames()));
  ASSIGN_OR_RETURN(scale::GroupPace pace, scale::GroupPace::Of(spec));
  const RunSpec& run = spec.run;
  ordered_json point = {{"stages", run.schedule.stages},
                        {"groups", run.outer.groups},
                        {"steps", Steps(run)},
                        {"inner_steps", run.outer.inner_steps},
                        {"schedule", run.schedule.kind},
                        {"profile", run.net.profile},
                        {"inside_bit_per_s", spec.inside.rate_bit_per_s},
                        {"between_bit_per_s", spec.between.rate_bit_per_s},
                        {"step_s", pace.step_s()},
                        {"ideal_tokens_per_s", scale::IdealGoodput(spec, pace)},
                        {"seeds", ordered_json::array()}};
  for (int64_t i = 0; i < seeds; ++i) {
    const scale::ScaleResult result =
        scale::SimulateRounds(spec, pace, static_cast<uint64_t>(run.seed + i));
    point["seeds"].push_back(SeedOf(result, rounds && i == 0));
  }
  return point;
}

}  // namespace

absl::Status AnswerScale(const ordered_json& question) {
  ASSIGN_OR_RETURN(const TomlValue root,
                   ReadTomlFile(question.at("spec").get<std::string>(),
                                question.at("sets").get<std::vector<std::string>>()));
  const ordered_json& points = question.at("points");
  for (const ordered_json& sets : points) {
    ASSIGN_OR_RETURN(const auto point,
                     PointOf(root, sets, question.at("seeds").get<int64_t>(), points.size() == 1));
    fmt::print("{}\n", point.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
