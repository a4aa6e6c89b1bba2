#include "experiments/report/report_compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/estimate_rows.h"
#include "experiments/spec/spec_changes.h"

namespace longhaul {
namespace {

using ArmSeed = std::pair<std::string, int64_t>;

// The run that counts for each arm and seed: the last one.
std::map<ArmSeed, const RunRow*> LastRuns(const ReportedExperiment& e) {
  std::map<ArmSeed, const RunRow*> runs;
  for (const RunRow& run : e.runs) runs[{run.arm, run.seed}] = &run;
  return runs;
}

std::map<ArmSeed, double> FinalLosses(const ReportedExperiment& e) {
  std::map<ArmSeed, double> losses;
  if (!e.campaign) return losses;
  for (const ArmResult& arm : e.campaign->arms) {
    for (const Outcome& o : arm.outcomes) {
      if (o.loss_off) losses[{arm.arm, o.run.seed}] = *o.loss_off;
    }
  }
  return losses;
}

void CompareLosses(const ReportedExperiment& a, const ReportedExperiment& b,
                   ComparedExperiment& out) {
  const std::map<ArmSeed, double> of_b = FinalLosses(b);
  for (const auto& [key, loss] : FinalLosses(a)) {
    const auto found = of_b.find(key);
    if (found == of_b.end()) continue;
    ++out.runs;
    out.identical += loss == found->second ? 1 : 0;
    out.widest_nat = std::max(out.widest_nat, std::abs(loss - found->second));
  }
}

void CompareSettings(const ReportedExperiment& a, const ReportedExperiment& b,
                     ComparedExperiment& out) {
  const std::map<ArmSeed, const RunRow*> of_b = LastRuns(b);
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> arms;
  std::set<std::string> in_a, in_b, both;
  for (const auto& [key, run] : LastRuns(a)) in_a.insert(key.first);
  for (const auto& [key, run] : of_b) in_b.insert(key.first);
  for (const auto& [key, run] : LastRuns(a)) {
    const auto found = of_b.find(key);
    if (in_b.contains(key.first)) both.insert(key.first);
    if (found == of_b.end()) continue;
    for (const SpecChange& change : SpecChanges(run->spec_toml, found->second->spec_toml)) {
      const std::string text = ToString(std::vector<SpecChange>{change});
      std::vector<std::string>& list = arms[text];
      if (list.empty()) order.push_back(text);
      if (list.empty() || list.back() != key.first) list.push_back(key.first);
    }
  }
  out.arms_of_a = static_cast<int64_t>(in_a.size());
  out.arms_of_b = static_cast<int64_t>(in_b.size());
  out.arms = static_cast<int64_t>(both.size());
  for (const std::string& text : order) out.settings.push_back({text, arms[text]});
}

// What a run was made with, by name.
std::map<std::string, std::string> MadeWith(const RunRow& run) {
  std::map<std::string, std::string> out = run.facts;
  out.erase(kRunIdFact);
  out.erase(kAttemptFact);
  if (const auto files = out.extract(kNamedFilesFact)) {
    for (const FileContent& file : ReadContents(files.mapped())) {
      out["SHA-256 of " + file.key] = ShortHash(file.sha256);
    }
  }
  for (const char* share : {kStillShareFact, kCoreWaitShareFact, kStolenShareFact})
    out.erase(share);
  out["revision"] = run.git_revision;
  out["host"] = run.host;
  out["kernel"] = run.kernel;
  out["torch"] = run.torch_version;
  out["cpu"] = run.cpu;
  out["codecs' instruction set"] = run.isa;
  out["threads"] = fmt::format("{}", run.threads);
  out["emulator"] = run.emulator;
  return out;
}

using Values = std::map<std::string, std::set<std::string>>;
Values AllMadeWith(const ReportedExperiment& e) {
  Values values;
  for (const RunRow& run : e.runs) {
    for (const auto& [name, value] : MadeWith(run)) values[name].insert(value);
  }
  return values;
}

// Facts of single runs (times, counts) are not settings: only those that all runs of a side share.
void CompareMachines(const ReportedExperiment& a, const ReportedExperiment& b,
                     ComparedExperiment& out) {
  const Values of_a = AllMadeWith(a), of_b = AllMadeWith(b);
  for (const auto& [name, values] : of_a) {
    const auto found = of_b.find(name);
    if (found == of_b.end() || values == found->second) continue;
    if (values.size() > 3 || found->second.size() > 3) continue;
    out.machines.push_back({fmt::format("{}: {} > {}", name, fmt::join(values, " and "),
                                        fmt::join(found->second, " and ")),
                            {}});
  }
}

// Step times as estimates: what timing runs are compared by.
void AddStepTimes(const ReportedExperiment& e, std::vector<EstimateRow>& rows) {
  for (const StepTime& t : e.step_times) {
    const std::string name =
        fmt::format("{}, {}, {}, S = {}, G = {}", t.arm, t.profile, t.schedule, t.stages, t.groups);
    AddEstimate(rows, name, "", "step time", "s", t.measured_s, 0, t.note);
  }
}

using EstimateKey = std::tuple<std::string, std::string, std::string>;
EstimateKey KeyOf(const EstimateRow& row) { return {row.arm, row.evaluation, row.quantity}; }

std::vector<EstimateRow> EstimatesOf(const ReportedExperiment& e) {
  std::vector<EstimateRow> rows;
  if (e.campaign) rows = ToEstimates(*e.campaign);
  if (!e.campaign) AddStepTimes(e, rows);
  return rows;
}

// What is no measurement of its own and does not gain from a difference.
bool Compared(const EstimateRow& row) {
  for (const char* left_out : {" AICc", " z at S", ", p by Holm", ", bca beside"}) {
    if (row.quantity.find(left_out) != std::string::npos) return false;
  }
  return true;
}

void Subtract(ComparedEstimate& out) {
  const EstimateRow &a = *out.a, &b = *out.b;
  if (!a.value || !b.value) {
    out.note = "no value on one side: " + (a.value ? b.note : a.note);
    return;
  }
  if (!a.value_bound().empty() || !b.value_bound().empty()) {
    out.note = "a bound has no difference";
    return;
  }
  out.difference = Measured{.value = *b.value - *a.value};
  if (!a.low || !a.high || !b.low || !b.high) {
    out.note = "no interval on one side";
    return;
  }
  if (!a.low_bound().empty() || !b.low_bound().empty()) {
    out.note = "an interval that is cut gives the difference none";
    return;
  }
  const double d = out.difference->value;
  out.difference->interval = Interval{d - std::hypot(*b.value - *b.low, *a.high - *a.value),
                                      d + std::hypot(*b.high - *b.value, *a.value - *a.low),
                                      a.level.value_or(0.95), "mover"};
}

std::vector<ComparedEstimate> CompareEstimates(const ReportedExperiment& a,
                                               const ReportedExperiment& b) {
  std::map<EstimateKey, EstimateRow> of_b;
  const std::vector<EstimateRow> rows_a = EstimatesOf(a), rows_b = EstimatesOf(b);
  for (const EstimateRow& row : rows_b) of_b[KeyOf(row)] = row;
  std::vector<ComparedEstimate> out;
  std::set<EstimateKey> seen;
  for (const EstimateRow& row : rows_a) {
    if (!Compared(row) || !seen.insert(KeyOf(row)).second) continue;
    ComparedEstimate e{row.arm, row.evaluation, row.quantity, row.unit, row, std::nullopt};
    if (const auto found = of_b.find(KeyOf(row)); found != of_b.end()) {
      e.b = found->second;
      Subtract(e);
    } else {
      e.note = "only in A";
    }
    out.push_back(std::move(e));
  }
  for (const EstimateRow& row : rows_b) {
    if (!Compared(row) || !seen.insert(KeyOf(row)).second) continue;
    out.push_back({row.arm, row.evaluation, row.quantity, row.unit, std::nullopt, row});
    out.back().note = "only in B";
  }
  return out;
}

ComparedExperiment CompareTwo(const ReportedExperiment& a, const ReportedExperiment& b) {
  ComparedExperiment out;
  out.a = a.row.name;
  out.b = b.row.name;
  out.same_plan = !a.row.plan_text.empty() && a.row.plan_sha256 == b.row.plan_sha256;
  if (a.campaign) out.first_lines_a = a.campaign->Resolvable();
  if (b.campaign) out.first_lines_b = b.campaign->Resolvable();
  CompareLosses(a, b, out);
  CompareSettings(a, b, out);
  CompareMachines(a, b, out);
  out.estimates = CompareEstimates(a, b);
  return out;
}

// The newest experiment of each kind and name.
using Named = std::map<std::pair<ExperimentKind, std::string>, ExperimentRow>;
absl::StatusOr<Named> Newest(const Record& record) {
  const absl::StatusOr<std::vector<ExperimentRow>> rows = record.Experiments();
  if (!rows.ok()) return rows.status();
  Named out;
  for (const ExperimentRow& row : *rows) out[{row.kind, row.name}] = row;
  return out;
}

std::vector<std::string> NamesOf(const Named& named) {
  std::vector<std::string> out;
  for (const auto& [key, row] : named) out.push_back(key.second);
  return out;
}

// Where each side has one campaign, B's takes the name of A's.
void MatchSoleCampaigns(const Named& a, Named& b) {
  const auto sole = [](const Named& all) {
    std::vector<std::string> names;
    for (const auto& [key, row] : all) {
      if (key.first == ExperimentKind::kCampaign) names.push_back(key.second);
    }
    return names.size() == 1 ? names.front() : std::string();
  };
  const std::string of_a = sole(a), of_b = sole(b);
  if (of_a.empty() || of_b.empty() || of_a == of_b) return;
  auto node = b.extract({ExperimentKind::kCampaign, of_b});
  node.key().second = of_a;
  b.insert(std::move(node));
}

// The same runs on both sides are no comparison: through a link, in a copy, after a merge.
absl::Status CheckNoSharedRun(const Record& a, const Record& b) {
  std::set<std::string> ids;
  int64_t shared = 0, runs = 0;
  for (const Record* record : {&a, &b}) {
    const auto rows =
        record->Rows(fmt::format("SELECT value FROM run_facts WHERE key = '{}'", kRunIdFact));
    if (!rows.ok()) return rows.status();
    for (size_t i = 1; i < rows->size(); ++i) {
      const bool fresh = ids.insert((*rows)[i].at(0)).second;
      if (record == &a) continue;
      ++runs;
      if (!fresh) ++shared;
    }
  }
  if (shared == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("compare {} and {}: {} of the {} runs of the second are runs of the first (the "
                  "same run_id): name two records with runs of their own",
                  a.folder(), b.folder(), shared, runs));
}

}  // namespace

bool ComparedEstimate::Apart() const {
  return difference && difference->interval &&
         (difference->interval->low > 0 || difference->interval->high < 0);
}

absl::StatusOr<RecordComparison> CompareRecords(const Record& a, const Record& b) {
  if (absl::Status s = CheckNoSharedRun(a, b); !s.ok()) return s;
  const absl::StatusOr<Named> of_a = Newest(a);
  if (!of_a.ok()) return of_a.status();
  absl::StatusOr<Named> of_b = Newest(b);
  if (!of_b.ok()) return of_b.status();
  MatchSoleCampaigns(*of_a, *of_b);
  RecordComparison out{.a = a.folder(), .b = b.folder()};
  for (const auto& [key, row] : *of_a) {
    const auto found = of_b->find(key);
    if (found == of_b->end()) {
      out.only_a.push_back(key.second);
      continue;
    }
    const absl::StatusOr<ReportedExperiment> left = ReadExperiment(a, row);
    if (!left.ok()) return left.status();
    const absl::StatusOr<ReportedExperiment> right = ReadExperiment(b, found->second);
    if (!right.ok()) return right.status();
    out.experiments.push_back(CompareTwo(*left, *right));
  }
  for (const auto& [key, row] : *of_b) {
    if (!of_a->contains(key)) out.only_b.push_back(key.second);
  }
  if (out.experiments.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "compare {} and {}: no experiment of one kind and name is in both; there are {} and {}",
        out.a, out.b, fmt::join(NamesOf(*of_a), ", "), fmt::join(NamesOf(*of_b), ", ")));
  }
  return out;
}

}  // namespace longhaul
