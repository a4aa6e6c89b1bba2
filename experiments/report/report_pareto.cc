#include "experiments/report/report_pareto.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

namespace longhaul {
namespace {

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
