#include "experiments/estimates/price_law_cells.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/dose_response.h"
#include "experiments/estimates/efficiency.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

absl::StatusOr<ExperimentRow> NewestCampaign(const Record& record) {
  const absl::StatusOr<std::vector<ExperimentRow>> all = record.Experiments();
  if (!all.ok()) return all.status();
  for (auto e = all->rbegin(); e != all->rend(); ++e) {
    if (e->kind == ExperimentKind::kCampaign) return *e;
  }
  return absl::FailedPreconditionError(
      fmt::format("{} holds no campaign; a law is of campaigns", record.folder()));
}

// l/L of every cut: where stages 1, 2, ... begin.
absl::StatusOr<std::vector<double>> Places(const RunRow& run) {
  const absl::StatusOr<TomlValue> spec = ParseToml(run.spec_toml, "record");
  if (!spec.ok()) return spec.status();
  const auto whole = [](const TomlValue* value) {
    const auto* read = value == nullptr ? nullptr : std::get_if<int64_t>(&value->value);
    return read == nullptr ? 0.0 : static_cast<double>(*read);
  };
  const double blocks = whole(Find(*spec, "model.blocks"));
  std::vector<double> places;
  const auto* list = FindAs<TomlValue::Array>(*spec, "schedule.cuts");
  if (list != nullptr) {
    for (const TomlValue& cut : *list) places.push_back(whole(&cut) / blocks);
  }
  if (!places.empty()) return places;
  for (int64_t s = 1; s < run.stages; ++s) {
    places.push_back(static_cast<double>(s) / static_cast<double>(run.stages));
  }
  return places;
}

// Mean NMSE of the compressed boundaries over seeds; 0 where one was not sampled.
absl::StatusOr<double> MeanError(const Record& record, const ArmResult& arm, Direction direction) {
  double sum = 0, boundaries = 0;
  for (const Outcome& o : arm.outcomes) {
    const absl::StatusOr<std::vector<CrossingRow>> crossings = record.Crossings(o.run.id);
    if (!crossings.ok()) return crossings.status();
    for (const CrossingRow& c : *crossings) {
      if (c.direction != direction || c.codec == "none") continue;
      if (!c.nmse_mean) return 0;
      sum += *c.nmse_mean;
      ++boundaries;
    }
  }
  return boundaries == 0 ? 0 : sum / boundaries;
}

// Why an arm cannot join; "": it can.
std::string Hindrance(const ArmResult& arm) {
  if (!arm.note.empty() && !arm.off && !arm.delta_alone) return arm.note;
  if (!arm.HasQ()) return "it has no q";
  if (!arm.off) return arm.note.empty() ? "it has no estimate" : arm.note;
  if (arm.reference != kD0Reference) return "it is compared with another run than the cell's own";
  if ((arm.forward_codec == "none") == (arm.backward_codec == "none")) {
    return "both directions are compressed: their prices are two laws";
  }
  if (arm.forward_codec.find(" at ") != std::string::npos ||
      arm.backward_codec.find(" at ") != std::string::npos) {
    return "its boundaries have codecs of their own";
  }
  return "";
}

PricePoint PointOf(const PricePoint& base, double value, const std::vector<double>& pseudo,
                   double sign, double own_error) {
  PricePoint point = base;
  point.value = sign * value;
  point.own_error = own_error;
  const double n = static_cast<double>(pseudo.size());
  for (const double one : pseudo) point.without.push_back(sign * (n * value - one) / (n - 1));
  return point;
}

std::vector<double> DeltasOf(const ArmResult& arm, const std::vector<int64_t>& seeds) {
  std::vector<double> out;
  for (const auto& [seed, delta] : arm.off->delta_by_seed) {
    if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) out.push_back(delta);
  }
  return out;
}

// `i`: the arm's place in `rows`; `base`: its cell.
absl::StatusOr<PriceArm> ReadArm(const Record& record, const ReferenceCurve& curve,
                                 const ArmResult& arm, const LnEtaRows& rows, size_t i,
                                 PricePoint base) {
  PriceArm out{arm.arm, arm.forward_codec + " / " + arm.backward_codec};
  out.forward = arm.forward_codec != "none";
  const std::string& codec = out.forward ? arm.forward_codec : arm.backward_codec;
  out.noise = codec.starts_with(kGaussianPrefix);
  const absl::StatusOr<std::vector<double>> places = Places(arm.outcomes.front().run);
  if (!places.ok()) return places.status();
  base.places = *places;
  const absl::StatusOr<double> eps =
      MeanError(record, arm, out.forward ? Direction::kForward : Direction::kBackward);
  if (!eps.ok()) return eps.status();
  base.eps = *eps;
  const CurveTerm term{1, rows.from[i], rows.to[i]};
  const double own = CurveError(curve, {&term, 1});
  const Measured ln_eta = Widened(MeanWithInterval(rows.pseudo[i], 0.95), own);
  out.minus_ln_eta.value = -ln_eta.value;
  if (ln_eta.interval) {
    out.minus_ln_eta.interval = Interval{-ln_eta.interval->high, -ln_eta.interval->low,
                                         ln_eta.interval->level, ln_eta.interval->method};
  }
  if (rows.to[i] < std::log(curve.smallest_budget)) {
    out.note = "below the smallest budget: a Delta and no place on the curve";
  } else {
    out.tokens = PointOf(base, rows.value[i], rows.pseudo[i], -1, own);
  }
  const std::vector<double> deltas = DeltasOf(arm, rows.seeds);
  out.delta_nat = MeanWithInterval(deltas, 0.95);
  out.loss = PointOf(base, out.delta_nat.value, deltas, 1, 0);
  return out;
}

}  // namespace

absl::StatusOr<PriceCell> ReadPriceCell(const Record& record, size_t index) {
  const absl::StatusOr<ExperimentRow> experiment = NewestCampaign(record);
  if (!experiment.ok()) return experiment.status();
  const absl::StatusOr<CampaignAnalysis> a = Analyse(record, *experiment);
  if (!a.ok()) return a.status();
  const auto refuse = [&](const std::string& why) {
    return absl::FailedPreconditionError(
        fmt::format("{} (campaign {}): {}", record.folder(), a->experiment.name, why));
  };
  if (!a->curve) return refuse(a->curve_note);
  if (!a->failed_controls.empty()) {
    return refuse("its controls failed: " + fmt::format("{}", fmt::join(a->failed_controls, "; ")));
  }
  PriceCell cell{a->experiment.name, record.folder(), static_cast<double>(a->parameters)};
  cell.slope_nat = a->curve->slope_nat;
  cell.tokens = static_cast<double>(FindArm(*a, kD0Reference)->outcomes.front().run.train_tokens);

  std::vector<const ArmResult*> joining;
  std::vector<ArmPair> pairs;
  for (const ArmResult& arm : a->arms) {
    if (arm.role != Role::kArm) continue;
    const std::string why = Hindrance(arm);
    if (!why.empty()) {
      cell.left_out.push_back(fmt::format("{}: {}", arm.arm, why));
      continue;
    }
    joining.push_back(&arm);
    pairs.push_back(
        {Losses(*FindArm(*a, arm.reference), EvalCodec::kOff), Losses(arm, EvalCodec::kOff)});
  }
  if (joining.empty()) return refuse("no arm has one direction compressed and a q");
  const absl::StatusOr<LnEtaRows> rows = LnEtaBySeed(*a->curve, pairs);
  if (!rows.ok()) return refuse(std::string(rows.status().message()));
  cell.seeds = static_cast<int64_t>(rows->seeds.size());
  if (cell.seeds < 2) return refuse("one seed has every run; a law takes two or more of each cell");

  for (size_t i = 0; i < joining.size(); ++i) {
    absl::StatusOr<PriceArm> arm =
        ReadArm(record, *a->curve, *joining[i], *rows, i, {index, cell.parameters, cell.tokens});
    if (!arm.ok()) return arm.status();
    cell.arms.push_back(*std::move(arm));
  }
  return cell;
}

}  // namespace longhaul
