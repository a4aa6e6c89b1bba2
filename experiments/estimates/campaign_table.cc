// A campaign's estimates as rows and as the terminal table.
#include <cmath>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/text_table.h"

namespace longhaul {
namespace {

EstimateRow Row(const std::string& arm, const std::string& evaluation, const std::string& quantity,
                const std::string& unit, int64_t seeds, const std::string& note) {
  EstimateRow row;
  row.arm = arm;
  row.evaluation = evaluation;
  row.quantity = quantity;
  row.unit = unit;
  row.method = std::string("none");
  row.seeds = seeds;
  row.note = note;
  return row;
}

void AddEstimate(std::vector<EstimateRow>& rows, const std::string& arm,
                 const std::string& evaluation, const std::string& quantity,
                 const std::string& unit, const Measured& x, int64_t seeds,
                 const std::string& note) {
  EstimateRow row = Row(arm, evaluation, quantity, unit, seeds, note);
  row.value = x.value;
  if (x.interval) {
    row.low = x.interval->low;
    row.high = x.interval->high;
    row.level = x.interval->level;
    row.method = x.interval->method;
  } else if (note.empty()) {
    row.note = std::string(seeds < 2 ? "one seed gives no interval" : "the interval is unbounded");
  }
  rows.push_back(std::move(row));
}

std::string BoundNote(const Efficiency& e) {
  if (e.value_is_bound) return "upper bound: below the smallest reference budget";
  if (e.low_is_bound) return "the low end is cut at the smallest reference budget";
  return e.exact ? "inverted on the curve" : "";
}

void AddArm(std::vector<EstimateRow>& rows, const ArmResult& arm) {
  for (const auto& [evaluation, e] : {std::pair("off", &arm.off), std::pair("on", &arm.on)}) {
    if (!*e) continue;
    const Efficiency& x = **e;
    const std::string note = BoundNote(x);
    AddEstimate(rows, arm.arm, evaluation, "delta", "nat", x.delta_nat, x.seeds, "");
    AddEstimate(rows, arm.arm, evaluation, "ln_eta", "1", x.ln_eta, x.seeds, note);
    AddEstimate(rows, arm.arm, evaluation, "eta", "1", x.eta, x.seeds, note);
    if (x.q) AddEstimate(rows, arm.arm, evaluation, "q", "per crossing", *x.q, x.seeds, note);
  }
  if (!arm.note.empty()) rows.push_back(Row(arm.arm, "", "eta", "1", arm.seeds, arm.note));
}

// "<= 0.500" where eta lies below the curve.
std::string EtaText(const Efficiency& e) {
  return fmt::format("{}{}", e.value_is_bound ? "<= " : "", WithInterval(e.eta, 3));
}
std::string QText(const std::optional<Efficiency>& e) {
  if (!e || !e->q) return "-";
  return fmt::format("{}{}", e->value_is_bound ? "<= " : "", WithInterval(*e->q, 4));
}

std::string ControlLine(const ArmResult& arm) {
  if (!arm.off) return fmt::format("control {}: {}\n", arm.arm, arm.note);
  const Measured& eta = arm.off->eta;
  std::string verdict = "no interval";
  if (eta.interval) {
    verdict =
        eta.interval->low <= arm.trained_fraction && arm.trained_fraction <= eta.interval->high
            ? "holds the truth"
            : "MISSES the truth";
  }
  return fmt::format("control {}: true eta {:.4f}, recovered {}: {}\n", arm.arm,
                     arm.trained_fraction, WithInterval(eta, 3), verdict);
}

std::string FamilyLines(const Family& family) {
  std::string text = fmt::format("{}: ", family.codecs);
  if (!family.off) return fmt::format("{}{}\n", text, family.note);
  text += fmt::format("q per crossing {} over {} depth{} together (M1), {}\n",
                      WithInterval(family.off->q, 4), family.arms.size(),
                      family.arms.size() == 1 ? "" : "s", ToString(AgainstAssumed(family.off->q)));
  if (family.on) {
    text += fmt::format("  with the codec on at evaluation {}\n", WithInterval(family.on->q, 4));
  }
  text += fmt::format("  8-stage pipelines keep eta_act >= 0.90: {}\n", EightStageVerdict(family));
  return text;
}

}  // namespace

std::string WithInterval(const Measured& x, int digits) {
  if (!x.interval) return fmt::format("{:.{}f} [-]", x.value, digits);
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", x.value, digits, x.interval->low, digits,
                     x.interval->high, digits);
}

std::vector<EstimateRow> ToEstimates(const CampaignAnalysis& a) {
  std::vector<EstimateRow> rows;
  if (a.curve) {
    const int64_t seeds = static_cast<int64_t>(a.curve->d0_loss_by_seed.size());
    AddEstimate(
        rows, "", "", "slope", "nat per e-fold of tokens", {a.curve->slope_nat, {}}, seeds,
        fmt::format("se {:.4f}; {:.4f} at beta 0.2, {:.4f} at beta 0.5", a.curve->slope_se_nat,
                    a.curve->slope_at_beta_low, a.curve->slope_at_beta_high));
    AddEstimate(rows, "", "", "sigma", "nat", {a.curve->sigma_nat, {}}, seeds, "pooled");
    AddEstimate(rows, "", "", "sd_delta", "nat", {a.sd_delta_nat, {}}, seeds, "pooled");
    AddEstimate(rows, "", "", "rho", "1", {a.rho, {}}, seeds, "from sd_delta and sigma");
  }
  for (const ArmResult& arm : a.arms) AddArm(rows, arm);
  for (size_t i = 0; i < a.families.size(); ++i) {
    const Family& family = a.families[i];
    const std::string name = fmt::format("joint {}: {}", i + 1, family.codecs);
    if (family.off) {
      AddEstimate(rows, name, "off", "q", "per crossing", family.off->q, family.off->seeds, "M1");
    }
    if (family.on) {
      AddEstimate(rows, name, "on", "q", "per crossing", family.on->q, family.on->seeds, "M1");
    }
  }
  return rows;
}

std::string CampaignTable(const CampaignAnalysis& a) {
  std::string text = fmt::format("{}\n{}\n\n", a.Resolvable(), a.Conditions());
  TextTable table({"arm", "forward / backward", "S", "K", "n", "delta nat", "eta", "q, codec off",
                   "q, codec on", "against 0.995"});
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm) continue;
    const std::string codecs = fmt::format("{} / {}", arm.forward_codec, arm.backward_codec);
    std::vector<std::string> row = {arm.arm, codecs, fmt::format("{}", arm.stages),
                                    fmt::format("{}", arm.crossings),
                                    fmt::format("{}", arm.off ? arm.off->seeds : arm.seeds)};
    if (arm.off) {
      row.push_back(WithInterval(arm.off->delta_nat, 4));
      row.push_back(EtaText(*arm.off));
      row.push_back(QText(arm.off));
      row.push_back(QText(arm.on));
      row.emplace_back(ToString(arm.verdict()));
    } else {
      for (int i = 0; i < 4; ++i) row.emplace_back("-");
      row.push_back(arm.note);
    }
    table.Add(std::move(row));
  }
  text += fmt::format("{}\n", table.Text());
  for (const Family& family : a.families) text += FamilyLines(family);
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kControl) text += ControlLine(arm);
  }
  return text;
}

absl::StatusOr<std::string> AnalyseCampaign(Record& record, int64_t experiment) {
  absl::StatusOr<std::vector<ExperimentRow>> experiments = record.Experiments();
  if (!experiments.ok()) return experiments.status();
  for (const ExperimentRow& e : *experiments) {
    if (e.id != experiment) continue;
    absl::StatusOr<CampaignAnalysis> analysis = Analyse(record, e);
    if (!analysis.ok()) return analysis.status();
    if (absl::Status s = record.SetEstimates(experiment, ToEstimates(*analysis)); !s.ok()) return s;
    return CampaignTable(*analysis);
  }
  return absl::NotFoundError(fmt::format("{} has no experiment {}", record.folder(), experiment));
}

}  // namespace longhaul
