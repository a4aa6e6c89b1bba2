#include "experiments/report/report_data.h"

#include <cctype>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "experiments/record/run_contents.h"

namespace longhaul {
namespace {

std::string Number(double x) { return fmt::format("{}", x); }
std::string Number(const std::optional<double>& x) { return x ? Number(*x) : std::string(); }

std::string BoundMark(const Measured& x) { return x.bound == Bound::kUpper ? "<=" : ""; }
std::string LowMark(const Measured& x) { return x.bound == Bound::kLowEnd ? "<=" : ""; }

// Folder names keep letters, digits, '-', '_' and '.'.
std::string Slug(const ExperimentRow& row) {
  std::string slug = fmt::format("{}-", row.id);
  for (const char c : row.name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    slug += plain ? c : '_';
  }
  return slug;
}

// A record may hold names that this program's catalogues no longer have.
SpecNames AnyNames() {
  const auto any = [](std::string_view) { return absl::OkStatus(); };
  return {.codec = any, .profile = any, .schedule = any};
}

constexpr const char* kArmColumns[] = {
    "arm",        "role",      "forward",   "backward",   "stages", "crossings",  "seeds",
    "evaluation", "delta_nat", "delta_low", "delta_high", "ln_eta", "ln_eta_low", "ln_eta_high",
    "eta",        "eta_low",   "eta_high",  "q",          "q_low",  "q_high",     "bound",
    "low_bound",  "verdict",   "reference", "changes",    "note"};

// What every row of an arm begins with.
std::vector<std::string> ArmCells(const ArmResult& arm, int64_t seeds) {
  return {arm.arm,
          std::string(ToString(arm.role)),
          arm.forward_codec,
          arm.backward_codec,
          fmt::format("{}", arm.stages),
          fmt::format("{}", arm.crossings),
          fmt::format("{}", seeds)};
}

std::vector<std::string> EstimateCells(const ArmResult& arm, const char* evaluation,
                                       const Efficiency& e) {
  std::vector<std::string> row = ArmCells(arm, e.seeds);
  row.emplace_back(evaluation);
  AppendCells(row, e.delta_nat);
  AppendCells(row, e.ln_eta);
  AppendCells(row, e.eta);
  if (e.q) {
    AppendCells(row, *e.q);
  } else {
    row.resize(row.size() + 3);
  }
  row.push_back(BoundMark(e.eta));
  row.push_back(LowMark(e.eta));
  row.emplace_back(!e.q                  ? "no q"
                   : arm.controls_failed ? ToString(Verdict::kNoConclusion)
                                         : ToString(AgainstAssumed(*e.q)));
  row.push_back(arm.reference);
  row.push_back(ToString(arm.changes));
  row.push_back(arm.other_build.empty() ? arm.note : "no q: another build, " + arm.other_build);
  return row;
}

}  // namespace

// A bound's interval ends at its value and begins nowhere known: it has no columns.
void AppendCells(std::vector<std::string>& row, const Measured& x) {
  const bool ends = x.interval.has_value() && x.bound != Bound::kUpper;
  row.push_back(Number(x.value));
  row.push_back(ends ? Number(x.interval->low) : std::string());
  row.push_back(ends ? Number(x.interval->high) : std::string());
}

absl::StatusOr<ReportedExperiment> ReadExperiment(const Record& record, const ExperimentRow& row) {
  ReportedExperiment out;
  out.row = row;
  out.folder = Slug(row);
  absl::StatusOr<std::vector<RunRow>> runs = record.Runs(row.id);
  if (!runs.ok()) return runs.status();
  out.runs = *std::move(runs);
  out.mixed_files = MixedContents(out.runs);
  if (row.kind == ExperimentKind::kCampaign) {
    absl::StatusOr<CampaignAnalysis> campaign = Analyse(record, row);
    if (!campaign.ok()) return campaign.status();
    out.campaign = *std::move(campaign);
  }
  const bool grid = row.kind == ExperimentKind::kRun && !row.plan_text.empty();
  if (grid && out.mixed_files.empty()) {  // else its runs make no figure together
    absl::StatusOr<TimingFindings> timing = AnalyseTiming(record, row.id);
    if (!timing.ok()) return timing.status();
    out.timing = *std::move(timing);
  }
  for (const RunRow& run : out.runs) {
    absl::StatusOr<TomlValue> tree = ParseToml(run.spec_toml, fmt::format("run {}", run.id));
    // A spec that this version cannot read costs the run its step time, not its place in the
    // tables.
    if (!tree.ok()) continue;
    absl::StatusOr<RunSpec> spec = ReadRunSpec(*tree, AnyNames());
    if (!spec.ok()) continue;
    absl::StatusOr<StepTime> time = AnalyseStepTime(record, run, *spec);
    if (!time.ok()) return time.status();
    if (time->measured_steps > 0) out.step_times.push_back(*std::move(time));
  }
  return out;
}

CsvRows CurveCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"name", "value"}};
  if (!a.curve) return rows;
  const ReferenceCurve& c = *a.curve;
  for (const auto& [name, value] : {std::pair("slope_nat", c.slope_nat),
                                    {"slope_se_nat", c.slope_se_nat},
                                    {"own_error_ln_eta", c.own_error},
                                    {"sigma_nat", c.sigma_nat},
                                    {"rho", a.rho},
                                    {"sd_delta_nat", a.sd_delta_nat},
                                    {"smallest_budget", c.smallest_budget}}) {
    rows.push_back({name, Number(value)});
  }
  return rows;
}

CsvRows FitCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"budget", "loss_nat"}};
  if (!a.curve) return rows;
  constexpr int kPoints = 200;
  const double first = a.curve->mean.x.front(), last = a.curve->mean.x.back();
  for (int i = 0; i <= kPoints; ++i) {
    const double budget = std::exp(first + (last - first) * i / kPoints);
    rows.push_back({Number(budget), Number(a.curve->LossAt(budget))});
  }
  return rows;
}

CsvRows LossesCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"arm", "role", "codecs", "stages", "crossings", "seed", "budget", "train_tokens",
                   "loss_off_nat", "loss_on_nat"}};
  double d0 = 0;
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference && arm.budget_fraction == 1 && !arm.outcomes.empty()) {
      d0 = static_cast<double>(arm.outcomes.front().run.train_tokens);
    }
  }
  for (const ArmResult& arm : a.arms) {
    for (const Outcome& o : arm.outcomes) {
      if (!o.loss_off) continue;
      rows.push_back({arm.arm, std::string(ToString(arm.role)),
                      arm.forward_codec + " / " + arm.backward_codec, fmt::format("{}", arm.stages),
                      fmt::format("{}", arm.crossings), fmt::format("{}", o.run.seed),
                      d0 > 0 ? Number(static_cast<double>(o.run.train_tokens) / d0) : std::string(),
                      fmt::format("{}", o.run.train_tokens), Number(o.loss_off),
                      Number(o.loss_on)});
    }
  }
  return rows;
}

CsvRows ArmsCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{std::begin(kArmColumns), std::end(kArmColumns)}};
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference) continue;
    if (arm.off) rows.push_back(EstimateCells(arm, "off", *arm.off));
    if (arm.on) rows.push_back(EstimateCells(arm, "on", *arm.on));
    if (!arm.note.empty()) {
      rows.push_back(ArmCells(arm, arm.seeds));
      if (arm.delta_alone) {
        rows.back().emplace_back("off");
        AppendCells(rows.back(), *arm.delta_alone);
      }
      rows.back().resize(rows.front().size() - 3);
      rows.back().push_back(arm.reference);
      rows.back().push_back(ToString(arm.changes));
      rows.back().emplace_back();
      rows.back().back() = arm.note;
    }
  }
  return rows;
}

CsvRows JointCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"codecs", "reference", "arms", "evaluation", "depths", "seeds", "q", "q_low",
                   "q_high", "low_bound", "bits_per_element", "note"}};
  for (const Family& family : a.families) {
    std::string arms;
    for (const ArmResult* arm : family.arms) arms += (arms.empty() ? "" : " ") + arm->arm;
    for (const auto& [evaluation, joint, note] :
         {std::tuple("off", &family.off, &family.note), {"on", &family.on, &family.on_note}}) {
      std::vector<std::string> row = {family.codecs,
                                      family.arms.front()->reference,
                                      arms,
                                      evaluation,
                                      fmt::format("{}", family.fitted_depths()),
                                      fmt::format("{}", *joint ? (*joint)->seeds : 0)};
      if (*joint) {
        AppendCells(row, (*joint)->q);
        row.push_back(LowMark((*joint)->q));
      } else {
        row.resize(row.size() + 4);
      }
      // 0: no bytes were recorded, as where losses alone were read from a file.
      row.push_back(family.bits_per_element > 0 ? Number(family.bits_per_element) : "");
      row.push_back(*note);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

CsvRows DepthCsv(const CampaignAnalysis& a) {
  CsvRows rows = {{"codecs", "reference", "model", "chosen", "crossings", "ln_eta"}};
  constexpr int kPoints = 40;
  for (const Family& family : a.families) {
    if (!family.depths) continue;
    const double most = static_cast<double>(family.arms.back()->crossings);
    const double forward = family.arms.front()->forward_codec == "none" ? 0 : 1;
    const double backward = family.arms.front()->backward_codec == "none" ? 0 : 1;
    for (const DepthFit& fit : family.depths->fits) {
      if (fit.theta.empty()) continue;
      for (int i = 0; i <= kPoints; ++i) {
        const double k = most * i / kPoints, boundaries = k / (forward + backward);
        const double loss = fit.MinusLnEta(forward * boundaries, backward * boundaries);
        if (!std::isfinite(loss)) continue;
        rows.push_back({family.codecs, family.arms.front()->reference,
                        std::string(ToString(fit.model)),
                        fit.model == family.depths->chosen ? "1" : "0", Number(k), Number(-loss)});
      }
    }
  }
  return rows;
}

CsvRows StepTimesCsv(const std::vector<StepTime>& times) {
  CsvRows rows = {{"run",
                   "arm",
                   "profile",
                   "schedule",
                   "stages",
                   "groups",
                   "microbatches",
                   "steps",
                   "measured_s",
                   "measured_low_s",
                   "measured_high_s",
                   "p2_s",
                   "p1_s",
                   "p3_s",
                   "residual",
                   "residual_low",
                   "residual_high",
                   "compute_utilisation",
                   "compute_utilisation_low",
                   "compute_utilisation_high",
                   "outer_measured_s",
                   "outer_predicted_s",
                   "note"}};
  for (const StepTime& t : times) {
    std::vector<std::string> row = {fmt::format("{}", t.run),
                                    t.arm,
                                    t.profile,
                                    t.schedule,
                                    fmt::format("{}", t.stages),
                                    fmt::format("{}", t.groups),
                                    fmt::format("{}", t.microbatches),
                                    fmt::format("{}", t.measured_steps)};
    AppendCells(row, t.measured_s);
    row.push_back(Number(t.p2_s));
    row.push_back(Number(t.p1_s));
    row.push_back(Number(t.p3_s));
    if (t.p2_s) {
      AppendCells(row, t.residual);
    } else {
      row.resize(row.size() + 3);
    }
    AppendCells(row, t.compute_utilisation);
    row.push_back(Number(t.outer_measured_s));
    row.push_back(Number(t.outer_predicted_s));
    row.push_back(t.note);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace longhaul
