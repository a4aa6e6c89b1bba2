#include "experiments/report/report_data.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "experiments/record/file_contents.h"

namespace longhaul {
namespace {

Cell BoundMark(const Measured& x) { return x.bound == Bound::kUpper ? "<=" : ""; }
Cell LowMark(const Measured& x) { return x.bound == Bound::kLowEnd ? "<=" : ""; }

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

// What every row of an arm begins with.
std::vector<Cell> ArmCells(const ArmResult& arm, int64_t seeds) {
  return {
      arm.arm, ToString(arm.role), arm.forward_codec, arm.backward_codec, arm.stages, arm.crossings,
      seeds};
}

void AddEstimate(const ArmResult& arm, const char* evaluation, const Efficiency& e, Table& table) {
  std::vector<Cell> row = ArmCells(arm, e.seeds);
  row.insert(row.end(),
             {evaluation, e.delta_nat, e.ln_eta, e.eta, e.q, BoundMark(e.eta), LowMark(e.eta),
              !e.q                  ? "no q"
              : arm.controls_failed ? ToString(Verdict::kNoConclusion)
                                    : ToString(AgainstAssumed(*e.q, arm.directions())),
              arm.reference, ToString(arm.changes),
              arm.other_build.empty() ? arm.note : "no q: another build, " + arm.other_build});
  table.Add(std::move(row));
}

// When its last step would have ended; nullopt: no simulated clock.
absl::StatusOr<std::optional<double>> EndOf(const Record& record, const RunRow& run) {
  const auto times = record.Simulated(run.id);
  if (!times.ok()) return times.status();
  std::optional<double> end;
  for (const SimulatedRow& t : *times) end = std::max(end.value_or(0), t.simulated_s);
  return end;
}

absl::StatusOr<std::optional<double>> BytesOf(const Record& record, const RunRow& run) {
  const auto crossings = record.Crossings(run.id);
  if (!crossings.ok()) return crossings.status();
  double sum = 0;
  for (const CrossingRow& c : *crossings) sum += static_cast<double>(c.message_bytes);
  return std::optional(sum);
}

std::optional<double> MemoryOf(const RunRow& run) {
  for (const char* fact : {"rank_bytes", "predicted_worker_bytes"}) {
    const std::string bytes = FactOf(run.facts, fact);
    if (!bytes.empty()) return std::atof(bytes.c_str());
  }
  return std::nullopt;
}

struct Point {
  const ArmResult* arm;
  Measured loss;
  int64_t seeds = 0;
  std::optional<double> costs[3] = {};  // time, bytes, memory
};

// Means over runs; one that is not known of one run is not known.
absl::StatusOr<std::optional<Point>> PointOf(const Record& record, const ArmResult& arm) {
  std::vector<double> losses;
  std::vector<double> costs[3];
  for (const Outcome& o : arm.outcomes) {
    if (!o.loss_off) continue;
    losses.push_back(*o.loss_off);
    const auto end = EndOf(record, o.run);
    if (!end.ok()) return end.status();
    const auto bytes = BytesOf(record, o.run);
    if (!bytes.ok()) return bytes.status();
    const std::optional<double> of_run[3] = {*end, *bytes, MemoryOf(o.run)};
    for (size_t i = 0; i < 3; ++i) {
      if (of_run[i]) costs[i].push_back(*of_run[i]);
    }
  }
  if (losses.empty()) return std::optional<Point>();
  Point point{.arm = &arm,
              .loss = MeanWithInterval(losses, 0.95),
              .seeds = static_cast<int64_t>(losses.size())};
  for (size_t i = 0; i < 3; ++i) {
    if (costs[i].size() == losses.size()) point.costs[i] = Mean(costs[i]);
  }
  return std::optional(point);
}

}  // namespace

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
  Table table{.columns = ForPrograms("name | value")};
  if (!a.curve) return CsvRowsOf(table);
  const ReferenceCurve& c = *a.curve;
  for (const auto& [name, value] : {std::pair("slope_nat", c.slope_nat),
                                    {"slope_se_nat", c.slope_se_nat},
                                    {"own_error_ln_eta", c.own_error},
                                    {"sigma_nat", c.sigma_nat},
                                    {"rho", a.rho},
                                    {"sd_delta_nat", a.sd_delta_nat},
                                    {"smallest_budget", c.smallest_budget}}) {
    table.Add({name, value});
  }
  return CsvRowsOf(table);
}

CsvRows FitCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("budget | loss_nat")};
  if (!a.curve) return CsvRowsOf(table);
  constexpr int kPoints = 200;
  const double first = a.curve->mean.x.front(), last = a.curve->mean.x.back();
  for (int i = 0; i <= kPoints; ++i) {
    const double budget = std::exp(first + (last - first) * i / kPoints);
    table.Add({budget, a.curve->LossAt(budget)});
  }
  return CsvRowsOf(table);
}

CsvRows LossesCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("arm | role | codecs | stages | crossings | seed | "
                                     "budget | train_tokens | loss_off_nat | loss_on_nat")};
  std::optional<double> d0;
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference && arm.budget_fraction == 1 && !arm.outcomes.empty()) {
      d0 = static_cast<double>(arm.outcomes.front().run.train_tokens);
    }
  }
  for (const ArmResult& arm : a.arms) {
    for (const Outcome& o : arm.outcomes) {
      if (!o.loss_off) continue;
      table.Add({arm.arm, ToString(arm.role), arm.forward_codec + " / " + arm.backward_codec,
                 arm.stages, arm.crossings, o.run.seed,
                 d0 ? Cell(static_cast<double>(o.run.train_tokens) / *d0) : Cell::None(),
                 o.run.train_tokens, o.loss_off, o.loss_on});
    }
  }
  return CsvRowsOf(table);
}

CsvRows ArmsCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("arm | role | forward | backward | stages | crossings | "
                                     "seeds | evaluation | delta_nat,delta_low,delta_high | "
                                     "ln_eta,ln_eta_low,ln_eta_high | eta,eta_low,eta_high | "
                                     "q,q_low,q_high | bound | low_bound | verdict | "
                                     "reference | changes | note")};
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference) continue;
    if (arm.off) AddEstimate(arm, "off", *arm.off, table);
    if (arm.on) AddEstimate(arm, "on", *arm.on, table);
    if (arm.note.empty()) continue;
    std::vector<Cell> row = ArmCells(arm, arm.seeds);
    row.insert(row.end(), {arm.delta_alone ? "off" : "", arm.delta_alone});
    row.resize(table.columns.size() - 3, Cell::None());
    row.insert(row.end(), {arm.reference, ToString(arm.changes), arm.note});
    table.Add(std::move(row));
  }
  return CsvRowsOf(table);
}

CsvRows JointCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("codecs | reference | arms | evaluation | depths | seeds | "
                                     "q,q_low,q_high | low_bound | bits_per_element | note")};
  for (const Family& family : a.families) {
    std::string arms;
    for (const ArmResult* arm : family.arms) arms += (arms.empty() ? "" : " ") + arm->arm;
    for (const auto& [evaluation, joint, note] :
         {std::tuple("off", &family.off, &family.note), {"on", &family.on, &family.on_note}}) {
      const JointEstimate* j = *joint ? &**joint : nullptr;
      table.Add({family.codecs, family.arms.front()->reference, arms, evaluation,
                 family.fitted_depths(), j == nullptr ? 0 : j->seeds,
                 j == nullptr ? Cell::None() : Cell(j->q), j == nullptr ? "" : LowMark(j->q),
                 // 0: no bytes were recorded, as where losses alone were read from a file.
                 family.bits_per_element > 0 ? Cell(family.bits_per_element) : Cell::None(),
                 *note});
    }
  }
  return CsvRowsOf(table);
}

CsvRows DepthCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("codecs | reference | model | chosen | crossings | ln_eta")};
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
        table.Add({family.codecs, family.arms.front()->reference, ToString(fit.model),
                   fit.model == family.depths->chosen, k, -loss});
      }
    }
  }
  return CsvRowsOf(table);
}

Table StepTimesTable(const std::vector<StepTime>& times) {
  Table table{
      .columns = ColumnsOf(
          "run:run | arm:arm | links:profile | -:schedule | "
          "groups x stages:stages | -:groups | -:microbatches | "
          "steps:steps | "
          "measured, s:measured_s,measured_low_s,measured_high_s | "
          "P2, s:p2_s | -:p1_s | -:p3_s | "
          "ln(measured\n/ P2):residual,residual_low,residual_high |  | "
          "P1, s | P3, s | "
          "compute\nshare:compute_utilisation,compute_utilisation_low,compute_utilisation_high | "
          "-:outer_measured_s | -:outer_predicted_s | -:note")};
  for (const StepTime& t : times) {
    const std::string shape = fmt::format("{} x {}, {}", t.groups, t.stages, t.schedule);
    table.Add({t.run,
               t.arm,
               t.profile,
               t.schedule,
               Cell::Shown(shape, t.stages),
               t.groups,
               t.microbatches,
               t.measured_steps,
               Cell(t.measured_s, 4),
               Cell(t.p2_s, "{:.4f}"),
               t.p1_s,
               t.p3_s,
               t.p2_s ? Cell(t.residual, 3) : Cell::None(),
               t.p2_s ? ResidualBadge(JudgeResidual(t)) : Cell::Badge("one process", Tone::kPlain),
               Cell(t.p1_s, "{:.4f}"),
               Cell(t.p3_s, "{:.4f}"),
               Cell(t.compute_utilisation, 2),
               t.outer_measured_s,
               t.outer_predicted_s,
               t.note});
  }
  return table;
}

std::vector<bool> ParetoFront(const std::vector<LossAt>& points) {
  std::vector<bool> front;
  for (const LossAt& p : points) {
    front.push_back(std::none_of(points.begin(), points.end(), [&p](const LossAt& other) {
      return other.cost <= p.cost && other.loss_nat <= p.loss_nat &&
             (other.cost < p.cost || other.loss_nat < p.loss_nat);
    }));
  }
  return front;
}

absl::StatusOr<CsvRows> ParetoCsv(const Record& record, const CampaignAnalysis& a) {
  std::vector<Point> points;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm && arm.role != Role::kReference) continue;
    const auto point = PointOf(record, arm);
    if (!point.ok()) return point.status();
    if (*point) points.push_back(**point);
  }
  Table table{
      .columns = ForPrograms(
          "arm | role | seeds | loss_nat,loss_nat_low,loss_nat_high | time_s | time_front | "
          "message_bytes | message_bytes_front | memory_bytes | memory_bytes_front")};
  for (const Point& p : points) {
    table.Add({p.arm->arm, ToString(p.arm->role), p.seeds, p.loss});
  }
  for (size_t i = 0; i < 3; ++i) {
    std::vector<LossAt> known;
    for (const Point& p : points) {
      if (p.costs[i]) known.push_back({*p.costs[i], p.loss.value});
    }
    const std::vector<bool> front = ParetoFront(known);
    size_t next = 0;
    for (size_t j = 0; j < points.size(); ++j) {
      const std::optional<double>& cost = points[j].costs[i];
      const bool best = cost && front[next++];
      table.rows[j].insert(table.rows[j].end(), {cost, cost ? Cell(best) : Cell::None()});
    }
  }
  return CsvRowsOf(table);
}

}  // namespace longhaul
