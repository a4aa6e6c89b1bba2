#include "experiments/report/report_curves.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/report/report_data.h"
#include "experiments/spec/spec_changes.h"
#include "planning/simulator/efficiency_terms.h"

namespace longhaul {
namespace {

constexpr size_t kMostPoints = 200;

struct CurvePoint {
  double tokens, loss_nat;
  int64_t step;
};
// By step, when it would have ended for all ranks, and what their messages had by then.
using SimulatedSteps = std::map<int64_t, std::pair<double, int64_t>>;

absl::StatusOr<std::map<int64_t, std::vector<CurvePoint>>> LossesByRun(const Record& record) {
  const auto rows = record.Rows(
      "SELECT run_id, AVG(loss_nat), SUM(tokens), step FROM steps WHERE typeof(loss_nat) = 'real' "
      "GROUP BY run_id, step ORDER BY run_id, step");
  if (!rows.ok()) return rows.status();
  std::map<int64_t, std::vector<CurvePoint>> by_run;
  for (size_t i = 1; i < rows->size(); ++i) {
    const std::vector<std::string>& row = (*rows)[i];
    std::vector<CurvePoint>& curve = by_run[std::atoll(row[0].c_str())];
    const double before = curve.empty() ? 0 : curve.back().tokens;
    curve.push_back({before + std::atof(row[2].c_str()), std::atof(row[1].c_str()),
                     std::atoll(row[3].c_str())});
  }
  return by_run;
}

absl::StatusOr<SimulatedSteps> SimulatedOf(const Record& record, int64_t run) {
  const auto times = record.Simulated(run);
  if (!times.ok()) return times.status();
  SimulatedSteps steps;
  // By group and stage, so that bytes of a group that is lost stay in the sum.
  std::map<std::pair<int64_t, int64_t>, int64_t> had;
  int64_t sum = 0;
  for (const SimulatedRow& t : *times) {  // in the order of steps
    auto& [ended_s, bytes] = steps[t.step];
    ended_s = std::max(ended_s, t.simulated_s);
    sum += t.message_bytes - std::exchange(had[{t.group_index, t.stage}], t.message_bytes);
    bytes = sum;
  }
  return steps;
}

void AppendCurve(const RunRow& run, const std::vector<CurvePoint>& curve,
                 const SimulatedSteps* simulated, Table& table) {
  const size_t bin = (curve.size() + kMostPoints - 1) / kMostPoints;
  for (size_t start = 0; start < curve.size(); start += bin) {
    const size_t end = std::min(start + bin, curve.size());
    double sum = 0;
    for (size_t i = start; i < end; ++i) sum += curve[i].loss_nat;
    table.Add({run.id, run.arm, ToString(run.role), run.seed, curve[end - 1].tokens,
               sum / static_cast<double>(end - start), end - start});
    if (simulated == nullptr) continue;
    const auto at = simulated->find(curve[end - 1].step);
    if (at == simulated->end()) continue;
    table.rows.back().emplace_back(fmt::format("{:.6f}", at->second.first));
    table.rows.back().emplace_back(at->second.second);
  }
}

const ArmResult* ReferenceArm(const CampaignAnalysis& a) {
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference && arm.budget_fraction == 1) return &arm;
  }
  return nullptr;
}

// "train.lr" -> "0.003", from the lines of a resolved spec.
std::map<std::string, std::string> Leaves(const std::string& toml) {
  std::map<std::string, std::string> leaves;
  std::string table;
  for (size_t at = 0; at < toml.size();) {
    const size_t end = std::min(toml.find('\n', at), toml.size());
    const std::string line = toml.substr(at, end - at);
    at = end + 1;
    const size_t equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']')) {
      table = line.substr(1, line.size() - 2) + ".";
    } else if (equals != std::string::npos) {
      std::string value = line.substr(equals + 3);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        value = value.substr(1, value.size() - 2);
      }
      leaves[table + line.substr(0, equals)] = value;
    }
  }
  return leaves;
}

// All crossings of one direction of an arm, together.
class DirectionSum {
 public:
  void Add(const CrossingRow& c) {
    bytes_ += static_cast<double>(c.payload_bytes);
    elements_ += static_cast<double>(c.elements);
    if (c.nmse_samples == 0 || !c.nmse_mean) return;
    samples_ += static_cast<double>(c.nmse_samples);
    nmse_ += static_cast<double>(c.nmse_samples) * *c.nmse_mean;
    if (c.nmse_max) most_ = std::max(most_.value_or(0), *c.nmse_max);
  }
  ArmOnTheWire::Direction Result() const {
    ArmOnTheWire::Direction out;
    if (elements_ > 0) out.bits_per_element = 8 * bytes_ / elements_;
    if (samples_ > 0) out.nmse_mean = nmse_ / samples_;
    out.nmse_max = most_;
    return out;
  }

 private:
  double bytes_ = 0, elements_ = 0, samples_ = 0, nmse_ = 0;
  std::optional<double> most_;
};

}  // namespace

bool HasSimulatedClock(const ReportedExperiment& e) {
  return std::any_of(e.runs.begin(), e.runs.end(),
                     [](const RunRow& run) { return run.facts.contains(kSimulatedClockFact); });
}

absl::StatusOr<CsvRows> TrainingCsv(const Record& record, const ReportedExperiment& e) {
  const auto curves = LossesByRun(record);
  if (!curves.ok()) return curves.status();
  std::set<int64_t> counted;
  if (e.campaign) {
    for (const ArmResult& arm : e.campaign->arms) {
      for (const Outcome& outcome : arm.outcomes) counted.insert(outcome.run.id);
    }
  }
  const bool clocked = HasSimulatedClock(e);
  Table table{.columns = ForPrograms("run | arm | role | seed | tokens | loss_nat | steps")};
  if (clocked) table.AddColumns(ForPrograms("simulated_s | message_bytes"));
  for (const RunRow& run : e.runs) {
    const auto curve = curves->find(run.id);
    if (curve == curves->end() || (e.campaign && !counted.contains(run.id))) continue;
    const absl::StatusOr<SimulatedSteps> simulated = SimulatedOf(record, run.id);
    if (!simulated.ok()) return simulated.status();
    AppendCurve(run, curve->second, clocked ? &*simulated : nullptr, table);
  }
  return CsvRowsOf(table);
}

CsvRows ResidualsCsv(const CampaignAnalysis& a) {
  Table table{.columns = ForPrograms("arm | role | seed | budget | loss_nat | fitted_nat | "
                                     "residual_nat | within_seed_nat")};
  if (!a.curve) return CsvRowsOf(table);
  std::map<int64_t, std::vector<double>> of_seed;
  for (const ArmResult& arm : a.arms) {
    for (const Outcome& o : arm.outcomes) {
      if (arm.role != Role::kReference || !o.loss_off) continue;
      of_seed[o.run.seed].push_back(*o.loss_off - a.curve->LossAt(arm.trained_fraction));
    }
  }
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kReference && arm.role != Role::kControl) continue;
    for (const Outcome& o : arm.outcomes) {
      if (!o.loss_off || !of_seed.contains(o.run.seed)) continue;
      const double fitted = a.curve->LossAt(arm.trained_fraction), residual = *o.loss_off - fitted;
      table.Add({arm.arm, ToString(arm.role), o.run.seed, arm.trained_fraction, *o.loss_off, fitted,
                 residual, residual - Mean(of_seed.at(o.run.seed))});
    }
  }
  return CsvRowsOf(table);
}

std::vector<std::string> ChangesInWords(const std::string& from_toml, const std::string& to_toml) {
  std::map<std::string, std::string> from = Leaves(from_toml), to = Leaves(to_toml);
  std::set<std::string> keys;
  for (const auto* leaves : {&from, &to}) {
    for (const auto& [key, value] : *leaves) keys.insert(key);
  }
  for (const char* key : {"seed", "train.tokens", "train.steps"}) keys.erase(key);
  const auto value = [](const std::map<std::string, std::string>& leaves, const std::string& key) {
    const auto found = leaves.find(key);
    return found == leaves.end() ? std::string("-") : found->second;
  };
  std::vector<std::string> changes;
  for (const std::string& key : keys) {
    const std::string was = value(from, key), is = value(to, key);
    if (was != is) changes.push_back(fmt::format("{}: {} -> {}", key, was, is));
  }
  return changes;
}

absl::StatusOr<std::vector<ArmOnTheWire>> ArmsOnTheWire(const Record& record,
                                                        const CampaignAnalysis& a) {
  const ArmResult* reference = ReferenceArm(a);
  std::vector<ArmOnTheWire> out;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm) continue;
    ArmOnTheWire row{.arm = arm.arm, .changes = {}, .forward = {}, .backward = {}, .outer = {}};
    if (reference != nullptr) {
      row.changes = ChangesInWords(reference->outcomes.front().run.spec_toml,
                                   arm.outcomes.front().run.spec_toml);
    }
    DirectionSum forward, backward, outer;
    std::vector<double> ended_s;
    for (const Outcome& o : arm.outcomes) {
      const auto simulated = SimulatedOf(record, o.run.id);
      if (!simulated.ok()) return simulated.status();
      if (!simulated->empty()) ended_s.push_back(simulated->rbegin()->second.first);
      const auto crossings = record.Crossings(o.run.id);
      if (!crossings.ok()) return crossings.status();
      for (const CrossingRow& c : *crossings) {
        // Of single boundaries the others' "none" says nothing.
        const std::string& codecs =
            c.direction == Direction::kForward ? arm.forward_codec : arm.backward_codec;
        if (c.codec == "none" && codecs.find(kAtBoundaries) != std::string::npos) continue;
        if (c.direction == Direction::kForward) forward.Add(c);
        if (c.direction == Direction::kBackward) backward.Add(c);
        if (c.direction != Direction::kOuter) continue;
        outer.Add(c);
        row.outer_bytes +=
            static_cast<double>(c.message_bytes) / static_cast<double>(arm.outcomes.size());
      }
    }
    row.forward = forward.Result();
    row.backward = backward.Result();
    row.outer = outer.Result();
    if (!ended_s.empty()) row.simulated_s = Mean(ended_s);
    out.push_back(std::move(row));
  }
  return out;
}

CsvRows WireCsv(const std::vector<ArmOnTheWire>& arms) {
  Table table{.columns = ForPrograms(
                  "arm | changes | forward_bits_per_element | forward_nmse_mean | "
                  "forward_nmse_max | backward_bits_per_element | "
                  "backward_nmse_mean | backward_nmse_max | outer_bits_per_element | outer_bytes | "
                  "simulated_s")};
  for (const ArmOnTheWire& arm : arms) {
    std::vector<Cell> row = {arm.arm, fmt::format("{}", fmt::join(arm.changes, "; "))};
    for (const ArmOnTheWire::Direction* d : {&arm.forward, &arm.backward}) {
      row.insert(row.end(), {d->bits_per_element > 0 ? Cell(d->bits_per_element) : Cell::None(),
                             d->nmse_mean, d->nmse_max});
    }
    const bool outer = arm.outer.bits_per_element > 0;
    row.insert(row.end(), {outer ? Cell(arm.outer.bits_per_element) : Cell::None(),
                           outer ? Cell(arm.outer_bytes) : Cell::None(), arm.simulated_s});
    table.Add(std::move(row));
  }
  return CsvRowsOf(table);
}

namespace {

constexpr double kReplicaFloor = 0.85;  // the planner's, see EtaRLinear

}  // namespace

CsvRows DilocoCsv(const CampaignAnalysis& a) {
  Table table{.columns =
                  ForPrograms("arm | batch | groups | inner_steps | codec | boundary | seeds | "
                              "eta,eta_low,eta_high | bound | low_bound | eta_H | eta_r")};
  const double parameters = static_cast<double>(a.parameters);
  for (const DilocoCell& cell : a.diloco.cells) {
    const ArmResult* arm = FindArm(a, cell.arm);
    if (!arm->off) continue;
    const Measured& eta = arm->off->eta;
    std::optional<double> eta_h;
    if (parameters > 3e4) {  // the planner's alpha has a pole at 10,000 parameters
      eta_h = simulator::EtaH(simulator::Alpha(parameters), static_cast<double>(cell.inner_steps),
                              simulator::Straggler::kSync);
    }
    table.Add({cell.arm, cell.local_batch ? "local-batch-matched" : "global-batch-matched",
               cell.groups, cell.inner_steps, cell.codec, cell.boundary, arm->off->seeds, eta,
               eta.bound == Bound::kUpper ? "<=" : "", eta.bound == Bound::kLowEnd ? "<=" : "",
               eta_h, simulator::EtaRLinear(parameters, cell.groups, kReplicaFloor)});
  }
  return CsvRowsOf(table);
}

}  // namespace longhaul
