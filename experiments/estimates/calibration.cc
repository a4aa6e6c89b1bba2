// What a campaign changes for the planner: eta_act by depth, and the calibration file.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "compressors/catalog.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/depth_ensemble.h"
#include "experiments/estimates/diloco_rows.h"

namespace longhaul {
namespace {

using nlohmann::json;

// Where the depths that a planner asks for lie; between two of them it takes a straight line.
constexpr int64_t kPredictedStages[] = {3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

// Tensors as large as a planner's. In a small model's, blocks end with a short row and headers weigh:
// the same codec takes more bits of an element there.
constexpr Shape kPlannedTensor{.rows = 4096, .cols = 8192};

json Ends(const Interval& interval) { return json::array({interval.low, interval.high}); }

std::string DirectionOf(const ArmResult& arm) {
  if (arm.forward_codec == "none") return "backward";
  return arm.backward_codec == "none" ? "forward" : "both";
}

// {"value": ..., "ci": [..]}, "bound": "<=" where the value is one, "ci_low_bound": "<=" where the
// low end was cut; null where there is neither an interval nor a bound with one behind it.
json Number(const Measured& x) {
  if (!x.interval) return nullptr;
  if (x.bound == Bound::kUpper) return {{"value", x.value}, {"bound", "<="}};
  json number = {{"value", x.value}, {"ci", Ends(*x.interval)}};
  if (x.bound == Bound::kLowEnd) number["ci_low_bound"] = "<=";
  return number;
}

// 16 bits over those of the codec's largest frame of a planner's tensor, header included. 1 for
// "none": what is planned with sends values of 16 bits. nullopt: a codec that is not of the catalogue.
std::optional<double> PlannedRatio(const std::string& codec) {
  if (codec == "none") return 1;
  const auto made = MakeCodec(codec);
  if (!made.ok()) return std::nullopt;
  const double elements = static_cast<double>(kPlannedTensor.rows * kPlannedTensor.cols);
  const size_t bytes = (*made)->MaxFrameBytes(kPlannedTensor, DType::kF32);
  return std::max(1.0, 2 * elements / static_cast<double>(bytes));
}

// What it was measured under, as far as a planner's model is under something else.
json ConditionsOf(const CampaignAnalysis& a) {
  json out = json::object();
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kReference || arm.budget_fraction != 1 || arm.outcomes.empty()) continue;
    const absl::StatusOr<TomlValue> spec = ParseToml(arm.outcomes.front().run.spec_toml, "record");
    const auto number = [&spec](const char* path) {
      const int64_t* whole = spec.ok() ? FindAs<int64_t>(*spec, path) : nullptr;
      return whole == nullptr ? 0.0 : static_cast<double>(*whole);
    };
    const double a_step = number("train.batch_rows") * number("model.context");
    if (!(a_step > 0)) continue;
    const double steps = std::ceil(number("train.tokens") / a_step);
    out["steps"] = static_cast<int64_t>(steps);
    if (steps > 0) out["warmup_share"] = number("train.warmup_steps") / steps;
  }
  if (a.experiment.d0_tokens && a.parameters > 0) {
    out["tokens_per_parameter"] =
        static_cast<double>(*a.experiment.d0_tokens) / static_cast<double>(a.parameters);
  }
  if (a.curve) {
    out["slope_nat_per_e_fold"] = {{"value", a.curve->slope_nat}, {"se", a.curve->slope_se_nat}};
    out["smallest_budget"] = a.curve->smallest_budget;
  }
  return out;
}

json ChangesOf(const ArmResult& arm) {
  json changes = json::array();
  for (const SpecChange& change : arm.changes) {
    changes.push_back({{"key", change.key}, {"reference", change.from}, {"arm", change.to}});
  }
  return changes;
}

// ln eta beyond the deepest arm, by several shapes of the depth with their weights.
void AddDepthsBeyond(const Family& family, json& entry) {
  int64_t deepest = 0;
  for (const ArmResult* arm : family.arms) deepest = std::max(deepest, arm->stages);
  std::vector<int64_t> stages;
  for (const int64_t s : kPredictedStages) {
    if (s > deepest) stages.push_back(s);
  }
  const std::optional<DepthEnsemble> ensemble =
      PredictDepths(*family.depths, family.directions(), deepest, stages);
  if (!ensemble) return;
  for (const DepthEnsemble::Member& m : ensemble->members) {
    entry["ensemble"].push_back({{"model", ToString(m.model)},
                                 {"weight", m.weight},
                                 {"held_out_rms_ln_eta", m.held_out_rms}});
  }
  for (const DepthEnsemble::Prediction& p : ensemble->at) {
    entry["beyond"].push_back({{"S", p.stages}, {"ln_eta", p.ln_eta}, {"ci", Ends(p.interval)}});
  }
}

// The power of the depth, and the model that held: -ln eta = a (S-1)^gamma beside the planner's
// q^K, which stays right where `chosen` is M1.
void AddDepth(const Family& family, json& entry) {
  const DepthComparison& depths = *family.depths;
  // The planner takes q at S = 2 and bends what lies deeper by gamma: both of M4, and only where
  // the depths speak against M1.
  const auto gamma = depths.gamma(), a_of_m4 = depths.PerBoundary(family.directions());
  if (depths.chosen != DepthModel::kM1 && gamma && gamma->interval->low > 0 && a_of_m4) {
    const double k = static_cast<double>(family.directions());
    entry["q_m1"] = {{"value", entry["q"]}, {"ci", entry["q_ci"]}};
    entry["gamma"] = gamma->value;
    entry["gamma_ci"] = Ends(*gamma->interval);
    entry["q"] = std::exp(-a_of_m4->value / k);
    entry["q_ci"] = {std::exp(-a_of_m4->interval->high / k), std::exp(-a_of_m4->interval->low / k)};
  }
  json model = {{"chosen", ToString(depths.chosen)}, {"words", depths.Words()}};
  model["alike"] = json::array();
  for (const DepthModel other : depths.alike) model["alike"].push_back(ToString(other));
  if (a_of_m4) {
    model["a"] = a_of_m4->value;
    model["a_ci"] = Ends(*a_of_m4->interval);
  }
  for (const DepthFit& fit : depths.fits) {
    for (const DepthParameter& p : fit.parameters) {
      if (const json number = Number(p.value); !number.is_null()) {
        model["models"][ToString(fit.model)][p.name] = number;
      }
    }
  }
  entry["depth_model"] = std::move(model);
}

// q of each direction, and whether they add up.
void AddDirections(const CampaignAnalysis& a, const Family& family, json& entry) {
  const ArmResult& arm = *family.arms.front();
  for (const DirectionFinding& d : a.findings.directions) {
    const bool here = std::find(d.arms.begin(), d.arms.end(), arm.arm) != d.arms.end();
    if (!here || family.directions() != 2) continue;
    for (const auto& [key, q] : {std::pair("q_forward", &d.q_forward),
                                 {"q_backward", &d.q_backward},
                                 {"q_symmetric", &d.q_symmetric}}) {
      if (*q && (*q)->interval) entry[key] = Number(**q);
    }
    for (const DirectionFinding::Interaction& i : d.interactions) {
      if (!i.ln || !i.ln->interval) continue;
      entry["direction_interaction"].push_back(
          {{"S", i.stages}, {"ln", i.ln->value}, {"ci", Ends(*i.ln->interval)}});
    }
    entry["only_both_feeds_the_simulator"] = d.OnlyBothFeedsThePlanner();
  }
}

json Entry(const Family& family, const char* evaluation, const JointEstimate& joint) {
  json entry = {{"codec", family.codecs},
                {"direction", DirectionOf(*family.arms.front())},
                {"arms", json::array()},
                {"reference", family.arms.front()->reference},
                {"eval", evaluation},
                {"q", joint.q.value},
                {"q_ci", Ends(*joint.q.interval)},
                {"level", joint.q.interval->level},
                {"method", joint.q.interval->method},
                {"seeds", joint.seeds},
                {"by_S", json::array()},
                {"delta_nat", json::array()}};
  if (joint.q.bound == Bound::kLowEnd) entry["q_ci_low_bound"] = "<=";
  if (family.bits_per_element > 0) {
    entry["bits_per_element"] = family.bits_per_element;
    entry["ratio"] = 16 / family.bits_per_element;
  }
  const auto forward = PlannedRatio(family.arms.front()->forward_codec);
  const auto backward = PlannedRatio(family.arms.front()->backward_codec);
  if (forward && backward) {
    entry["ratio_forward"] = *forward;
    entry["ratio_backward"] = *backward;
    entry["ratio_width"] = kPlannedTensor.cols;
  }
  for (const ArmResult* arm : family.arms) {
    entry["arms"].push_back(arm->arm);
    const std::optional<Efficiency>& e = evaluation == std::string("off") ? arm->off : arm->on;
    if (!e || e->IsBound() || !e->ln_eta.interval || !e->delta_nat.interval) continue;
    entry["by_S"].push_back({{"S", arm->stages},
                             {"crossings", arm->crossings},
                             {"arm", arm->arm},
                             {"ln_eta", e->ln_eta.value},
                             {"ci", Ends(*e->ln_eta.interval)}});
    if (e->ln_eta.bound == Bound::kLowEnd) entry["by_S"].back()["ci_low_bound"] = "<=";
    entry["delta_nat"].push_back({{"S", arm->stages},
                                  {"arm", arm->arm},
                                  {"value", e->delta_nat.value},
                                  {"ci", Ends(*e->delta_nat.interval)}});
  }
  return entry;
}

json ArmEntry(const ArmResult& arm) {
  json entry = {{"arm", arm.arm},
                {"S", arm.stages},
                {"crossings", arm.crossings},
                {"forward", arm.forward_codec},
                {"backward", arm.backward_codec},
                {"reference", arm.reference},
                {"changes", ChangesOf(arm)},
                {"other_build", arm.other_build},
                {"seeds", arm.seeds},
                {"note", arm.note}};
  for (const auto& [evaluation, e] : {std::pair("off", &arm.off), std::pair("on", &arm.on)}) {
    if (!*e) continue;
    entry[evaluation] = {{"delta_nat", Number((*e)->delta_nat)},
                         {"ln_eta", Number((*e)->ln_eta)},
                         {"eta", Number((*e)->eta)}};
    if ((*e)->q) entry[evaluation]["q"] = Number(*(*e)->q);
  }
  return entry;
}

// eta of K crossings at this q each; below the smallest reference budget it is a bound.
Measured ToThePower(const Measured& q, double k, double smallest_budget) {
  Measured out{std::pow(q.value, k), q.interval, q.bound};
  if (out.interval) {
    out.interval->low = std::pow(q.interval->low, k);
    out.interval->high = std::pow(q.interval->high, k);
  }
  return CutBelow(smallest_budget, std::move(out));
}

}  // namespace

std::vector<PlannedDepth> PlannedDepths(const Family& family) {
  std::vector<PlannedDepth> out;
  for (const int64_t stages : {2, 4, 8}) {
    const double k = static_cast<double>(family.directions() * (stages - 1));
    PlannedDepth depth{stages, std::pow(AssumedQ(family.directions()), k), {}, false};
    const auto arm = std::find_if(family.arms.begin(), family.arms.end(), [&](const ArmResult* a) {
      return a->stages == stages && a->off;
    });
    if (arm != family.arms.end()) {
      depth.measured = (*arm)->off->eta;
      depth.direct = true;
    } else if (family.off) {
      depth.measured = ToThePower(family.off->q, k, family.smallest_budget);
    } else {
      continue;
    }
    out.push_back(std::move(depth));
  }
  return out;
}

std::string CalibrationJson(const CampaignAnalysis& a) {
  json out = {{"schema", "longhaul.calibration/1"}, {"plan_sha256", a.experiment.plan_sha256},
              {"commit", a.git_revision},           {"params", a.parameters},
              {"activation", json::array()},        {"arms", json::array()}};
  if (a.experiment.d0_tokens) out["tokens"] = *a.experiment.d0_tokens;
  out["conditions"] = ConditionsOf(a);
  if (!a.builds.empty()) out["builds"] = a.builds;  // "commit" has all revisions
  if (!a.failed_controls.empty()) out["controls_failed"] = a.failed_controls;
  for (const Family& family : a.families) {
    if (!a.failed_controls.empty()) break;  // figures of an instrument in doubt calibrate nothing
    if (family.off && family.off->q.interval) {
      json entry = Entry(family, "off", *family.off);
      if (family.depths) {
        AddDepth(family, entry);
        AddDepthsBeyond(family, entry);
      }
      AddDirections(a, family, entry);
      out["activation"].push_back(std::move(entry));
    }
    if (family.on && family.on->q.interval) {
      out["activation"].push_back(Entry(family, "on", *family.on));
    }
  }
  if (a.failed_controls.empty()) AddDilocoCalibration(a, out);
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kArm) out["arms"].push_back(ArmEntry(arm));
  }
  return out.dump(2) + "\n";
}

}  // namespace longhaul
