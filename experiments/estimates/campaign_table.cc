// A campaign's estimates as rows and as the terminal table.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/estimate_rows.h"
#include "experiments/estimates/findings_tables.h"
#include "experiments/estimates/table.h"
#include "experiments/estimates/training_advice.h"

namespace longhaul {
namespace {

std::string BoundNote(Bound bound) {
  if (bound == Bound::kUpper) return "upper bound: below the smallest reference budget";
  if (bound == Bound::kLowEnd) return "the low end is cut at the smallest reference budget";
  return "";
}

std::string Note(const ArmResult& arm, const Efficiency& e) {
  std::string note = BoundNote(e.ln_eta.bound);
  if (arm.role == Role::kArm && arm.reference != kD0Reference) {
    note += fmt::format("{}against '{}'", note.empty() ? "" : "; ", arm.reference);
  }
  if (!arm.changes.empty()) {
    note += fmt::format("{}no q: {}", note.empty() ? "" : "; ", ToString(arm.changes));
  }
  if (!arm.other_build.empty()) {
    note += fmt::format("{}no q: another build, {}", note.empty() ? "" : "; ", arm.other_build);
  }
  return note;
}

void AddArm(std::vector<EstimateRow>& rows, const ArmResult& arm) {
  for (const auto& [evaluation, e] : {std::pair("off", &arm.off), std::pair("on", &arm.on)}) {
    if (!*e) continue;
    const Efficiency& x = **e;
    const std::string note = Note(arm, x);
    AddEstimate(rows, arm.arm, evaluation, "delta", "nat", x.delta_nat, x.seeds, "");
    AddEstimate(rows, arm.arm, evaluation, "ln_eta", "1", x.ln_eta, x.seeds, note);
    AddEstimate(rows, arm.arm, evaluation, "eta", "1", x.eta, x.seeds, note);
    if (!x.q) continue;
    AddEstimate(rows, arm.arm, evaluation, "q", "per crossing", *x.q, x.seeds, note);
  }
  if (arm.delta_alone) {
    AddEstimate(rows, arm.arm, "off", "delta", "nat", *arm.delta_alone, arm.seeds,
                fmt::format("against '{}'", arm.reference));
  }
  if (!arm.note.empty())
    rows.push_back(EstimateWithout(arm.arm, "", "eta", "1", arm.seeds, arm.note));
}

// The last column: q against what planning assumes, or why there is none.
std::string VerdictText(const ArmResult& arm) {
  std::string text(ToString(arm.verdict()));
  if (!arm.changes.empty()) text += ": " + ToString(arm.changes);
  if (!arm.other_build.empty()) text += ": another build, " + arm.other_build;
  if (arm.reference != kD0Reference) text += fmt::format(" (against {})", arm.reference);
  return text;
}

std::string ControlLine(const ArmResult& arm) {
  if (!arm.off) return fmt::format("control {}: {}\n", arm.arm, arm.note);
  return fmt::format("control {}: true eta {:.4f}, recovered {}: {}\n", arm.arm,
                     arm.trained_fraction, WithInterval(arm.off->eta, 3), arm.ControlVerdict());
}

std::string CurveLine(const ReferenceCurve& c) {
  return fmt::format(
             "reference curve: through the mean losses of {} budgets, slope at D0 {:.3f} nat per "
             "e-fold of tokens\n",
             c.budgets.size(), c.slope_nat) +
         Wrapped("  " + CurveErrorText(c), 100, "  ");
}

std::string FamilyLines(const Family& family) {
  std::vector<std::string> names;
  for (const ArmResult* arm : family.arms) {
    names.push_back(fmt::format("{}, K = {}", arm->arm, arm->crossings));
  }
  std::string text = fmt::format("{} ({}): ", family.codecs, fmt::join(names, "; "));
  if (!family.off) return fmt::format("{}{}\n", text, family.note);
  text += fmt::format("q per crossing {} over {} depth{} together (M1), {}",
                      WithInterval(family.off->q, 4), family.fitted_depths(),
                      family.fitted_depths() == 1 ? "" : "s", ToString(family.verdict()));
  return Wrapped(text, 110, "  ") +
         fmt::format("  with the codec on at evaluation {}\n",
                     family.on ? WithInterval(family.on->q, 4) : family.on_note);
}

// The arms with the codec off at evaluation and, in a second row where there are few, on.
std::string ArmsGrid(const CampaignAnalysis& a) {
  constexpr ptrdiff_t kFewArms = 6;
  const bool few = std::count_if(a.arms.begin(), a.arms.end(), [](const ArmResult& arm) {
                     return arm.role == Role::kArm;
                   }) <= kFewArms;
  Table table{.columns = ColumnsOf("arm | forward / backward | S | K | n | delta nat | eta | "
                                   "q | against 0.995")};
  const auto add = [](std::vector<Cell>& row, const Efficiency& e) {
    row.insert(row.end(), {Cell(e.delta_nat, 3), Cell(e.eta, 2), Cell(e.q, 4)});
  };
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm) continue;
    const std::string codecs = fmt::format("{} / {}", arm.forward_codec, arm.backward_codec);
    std::vector<Cell> row = {arm.arm, codecs, arm.stages, arm.crossings,
                             arm.off ? arm.off->seeds : arm.seeds};
    if (arm.off) {
      add(row, *arm.off);
      row.emplace_back(VerdictText(arm));
    } else {
      row.emplace_back(arm.delta_alone, 3);
      row.insert(row.end(), 2, Cell::None());
      row.emplace_back(arm.note);
    }
    table.Add(std::move(row));
    if (!few || !arm.on || arm.crossings == 0) continue;
    row = {"", "  codec on at evaluation", Cell::None(""), Cell::None(""), arm.on->seeds};
    add(row, *arm.on);
    row.emplace_back("");
    table.Add(std::move(row));
  }
  return GridText(table);
}

}  // namespace

std::vector<EstimateRow> ToEstimates(const CampaignAnalysis& a) {
  std::vector<EstimateRow> rows;
  if (a.curve) {
    const int64_t seeds = static_cast<int64_t>(a.curve->d0_loss_by_seed.size());
    AddEstimate(rows, "", "", "slope", "nat per e-fold of tokens", {a.curve->slope_nat, {}}, seeds,
                fmt::format("se {:.4f}", a.curve->slope_se_nat));
    for (const PseudoControl& control : a.curve->pseudo_controls) {
      AddEstimate(rows, "", "", fmt::format("{:.4f} D0, ln budget found again", control.budget),
                  "1", control.error, seeds, "by the curve without it");
    }
    AddEstimate(rows, "", "", "curve_error", "1", {a.curve->own_error, {}}, seeds,
                a.curve->lack_of_fit_p
                    ? fmt::format("of ln eta between budgets; p {:.4f} that there is none",
                                  *a.curve->lack_of_fit_p)
                    : "of ln eta between budgets");
    AddEstimate(rows, "", "", "sigma", "nat", {a.curve->sigma_nat, {}}, seeds, "pooled");
    AddEstimate(rows, "", "", "sd_delta", "nat", {a.sd_delta_nat, {}}, seeds, "pooled");
    AddEstimate(rows, "", "", "rho", "1", {a.rho, {}}, seeds, "from sd_delta and sigma");
  }
  for (const ArmResult& arm : a.arms) AddArm(rows, arm);
  for (size_t i = 0; i < a.families.size(); ++i) {
    const Family& family = a.families[i];
    const std::string name = fmt::format("joint {}: {}", i + 1, family.codecs);
    for (const auto& [evaluation, joint, why] :
         {std::tuple("off", &family.off, &family.note), {"on", &family.on, &family.on_note}}) {
      if (!*joint) {
        rows.push_back(EstimateWithout(name, evaluation, "q", "per crossing", 0, *why));
        continue;
      }
      const Measured& q = (*joint)->q;
      const std::string cut = BoundNote(q.bound);
      AddEstimate(rows, name, evaluation, "q", "per crossing", q, (*joint)->seeds,
                  cut.empty() ? "M1" : "M1; " + cut);
    }
  }
  AddFindings(a, rows);
  return rows;
}

std::string CampaignTable(const CampaignAnalysis& a, Detail detail) {
  std::string text = Wrapped(a.Resolvable()) + Wrapped(a.Conditions()) + "\n" + ArmsGrid(a) + "\n";
  if (a.curve && detail == Detail::kAll) text += CurveLine(*a.curve);
  for (const Family& family : a.families) text += FamilyLines(family);
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kControl) text += ControlLine(arm);
    if (arm.role == Role::kReference && arm.lost > 0) {
      text += fmt::format("{}: {}\n", arm.arm, arm.LostText());
    }
  }
  for (const IdentityCheck& check : a.identities) text += check.Text() + "\n";
  for (const std::string& line : a.builds) {
    text += "not of one build and machine: " + line + "\n";
  }
  for (const std::string& line : LearntNothing(a)) text += line + "\n";
  if (detail == Detail::kAll) {
    for (const Table& found : FindingsTables(a)) text += "\n" + TextOf(found);
  }
  const std::string summary = CampaignSummary(a);
  return summary.empty() ? text : text + "\n" + Wrapped(summary);
}

absl::StatusOr<std::string> AnalyseCampaign(Record& record, int64_t experiment, Detail detail) {
  absl::StatusOr<std::vector<ExperimentRow>> experiments = record.Experiments();
  if (!experiments.ok()) return experiments.status();
  for (const ExperimentRow& e : *experiments) {
    if (e.id != experiment) continue;
    absl::StatusOr<CampaignAnalysis> analysis = Analyse(record, e);
    if (!analysis.ok()) return analysis.status();
    if (!analysis->mixed_files.empty()) {
      return absl::FailedPreconditionError(
          fmt::format("{}/{}: {}", record.folder(), kRecordFile, analysis->curve_note));
    }
    if (absl::Status s = record.SetEstimates(experiment, ToEstimates(*analysis)); !s.ok()) return s;
    return CampaignTable(*analysis, detail);
  }
  return absl::NotFoundError(fmt::format("{} has no experiment {}", record.folder(), experiment));
}

}  // namespace longhaul
