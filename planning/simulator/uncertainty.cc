#include "planning/simulator/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/table_json.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

ResultRow RowOf(const Scenario& scenario) {
  ResultRow row;
  row.scenario = scenario;
  row.outcome = Simulate(scenario);
  return row;
}

std::vector<Spread> Spreads(const Scenario& middle, const Assumptions& assumptions) {
  const std::span<const Quantity> columns = Quantities();
  std::vector<std::vector<double>> drawn(columns.size());
  Scenario s = middle;
  for (size_t draw = 0; draw < kUncertainDraws; ++draw) {
    for (const Assumption& a : assumptions.factors) {
      if (!a.uncertain()) continue;
      // By key and not by place: one more factor leaves the draws of the others as they are.
      const double u = Uniform(static_cast<uint64_t>(assumptions.seed), draw, a.key);
      a.Set(s.measured, TriangularQuantile(a.low, a.mid, a.high, u));
    }
    const ResultRow row = RowOf(s);
    for (size_t i = 0; i < columns.size(); ++i) drawn[i].push_back(columns[i].get(row));
  }
  const ResultRow at_middle = RowOf(middle);
  std::vector<Spread> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<double>& v = drawn[i];
    std::sort(v.begin(), v.end());
    constexpr size_t kTail = kUncertainDraws / 20, kQuarter = kUncertainDraws / 4;
    const double median = (v[kUncertainDraws / 2 - 1] + v[kUncertainDraws / 2]) / 2;
    out.push_back({columns[i].name, columns[i].get(at_middle), v[kTail], median,
                   v[kUncertainDraws - 1 - kTail], v[kQuarter], v[kUncertainDraws - 1 - kQuarter]});
  }
  return out;
}

std::vector<Lever> Levers(const Scenario& middle, const Assumptions& assumptions) {
  struct Ends {
    const Assumption* factor;
    ResultRow low, high;
  };
  std::vector<Ends> ends;
  for (const Assumption& a : assumptions.factors) {
    if (!a.uncertain()) continue;
    Scenario low = middle, high = middle;
    a.Set(low.measured, a.low);
    a.Set(high.measured, a.high);
    ends.push_back({&a, RowOf(low), RowOf(high)});
  }
  const ResultRow at_middle = RowOf(middle);
  std::vector<Lever> out;
  for (const Quantity& column : Quantities()) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (const Ends& e : ends) {
      Lever lever{
          column.name,       std::string(e.factor->name()), e.factor->low,     e.factor->high,
          column.get(e.low), column.get(at_middle),         column.get(e.high)};
      if (lever.moves() > 0) out.push_back(std::move(lever));
    }
    std::stable_sort(out.begin() + first, out.end(),
                     [](const Lever& a, const Lever& b) { return a.moves() > b.moves(); });
  }
  return out;
}

}  // namespace

double Uniform(uint64_t seed, uint64_t draw, uint64_t source) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  const uint64_t bits = Mix(Mix((seed + 1) * kStep) ^ ((draw * 64 + source + 1) * kStep));
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double TriangularQuantile(double low, double mid, double high, double u) {
  if (!(low < high)) return mid;
  const double below = (mid - low) / (high - low);
  return u < below ? low + std::sqrt(u * (high - low) * (mid - low))
                   : high - std::sqrt((1 - u) * (high - low) * (high - mid));
}

double Lever::moves() const {
  return std::max({at_low, at_mid, at_high}) - std::min({at_low, at_mid, at_high});
}

Uncertainty Propagate(const Scenario& scenario, const Assumptions& assumptions) {
  return {Spreads(scenario, assumptions), Levers(scenario, assumptions)};
}

namespace {

using nlohmann::json;

constexpr size_t kMostShown = 10;
constexpr double kBar = 30;  // characters of the longest

// Of the rows with their places in `file`'s lists; without a file of what moves alone.
Table SpreadTable(std::span<const UncertainRow> rows, const ScenarioFile* file) {
  Table table;
  if (file != nullptr) table.columns = AxisColumns(*file);
  table.AddColumns(
      ColumnsOf("quantity:quantity | at the middle:middle | -:p05 | -:p25 | "
                "median:median | -:p75 | 90 % interval:p95"));
  for (const UncertainRow& row : rows) {
    for (const Spread& s : row.uncertainty.spreads) {
      if (file == nullptr && s.low == s.high) continue;
      std::vector<Cell> cells = file == nullptr ? std::vector<Cell>() : AxisCells(*file, row.at);
      cells.insert(
          cells.end(),
          {s.quantity, Cell(s.mid, "{:.5g}"), s.low, s.lower_quartile, Cell(s.median, "{:.5g}"),
           s.upper_quartile, Cell::Shown(fmt::format("[{:.5g}, {:.5g}]", s.low, s.high), s.high)});
      table.Add(std::move(cells));
    }
  }
  return table;
}

// Of every quantity with the rows' places in `file`'s lists; without a file of `quantity` alone.
Table TornadoTable(std::span<const UncertainRow> rows, const ScenarioFile* file,
                   std::string_view quantity) {
  Table table;
  if (file != nullptr) table.columns = AxisColumns(*file);
  table.AddColumns(ColumnsOf(fmt::format(
      "-:quantity | {}:factor | from:factor_low | to:factor_high | at low:at_low | -:at_middle | "
      "at high:at_high | moves:moves | bar",
      quantity)));
  double most = 0;  // the first moves it most
  for (const UncertainRow& row : rows) {
    for (const Lever& l : row.uncertainty.levers) {
      if (file == nullptr && l.quantity != quantity) continue;
      if (most == 0) most = l.moves();
      std::vector<Cell> cells = file == nullptr ? std::vector<Cell>() : AxisCells(*file, row.at);
      const auto bar =
          file == nullptr ? static_cast<size_t>(std::ceil(kBar * l.moves() / most)) : 0;
      cells.insert(cells.end(),
                   {l.quantity, l.factor, Cell(l.factor_low, "{:.5g}"),
                    Cell(l.factor_high, "{:.5g}"), Cell(l.at_low, "{:.4g}"), l.at_mid,
                    Cell(l.at_high, "{:.4g}"), Cell(l.moves(), "{:.3g}"), std::string(bar, '#')});
      table.Add(std::move(cells));
    }
  }
  return table;
}

std::string SpreadText(const UncertainRow& row) {
  const Table table = SpreadTable({&row, 1}, nullptr);
  return table.rows.empty() ? "nothing that is reported moves with these factors\n"
                            : GridText(table);
}

std::string TornadoText(const UncertainRow& row, std::string_view quantity) {
  const Table table = TornadoTable({&row, 1}, nullptr, quantity);
  if (table.rows.empty()) return "";
  return "one factor at a time, the others at their middle:\n" + GridText(table);
}

}  // namespace

std::string UncertaintyText(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  std::string text = fmt::format(
      "Ranges of [assume]: triangular between low and high with the peak at the middle, "
      "independent;\n{} draws, seed {}.\n",
      kUncertainDraws, file.assumptions.seed);
  for (size_t i = 0; i < rows.size() && i < kMostShown; ++i) {
    text += "\n" + rows[i].name + "\n" + SpreadText(rows[i]) + TornadoText(rows[i], "c_local");
    if (file.draft.scenario.switches.chi) text += TornadoText(rows[i], "c_quality");
  }
  if (rows.size() > kMostShown) {
    text += fmt::format("... and {} scenarios more; --spread FILE and --tornado FILE hold all\n",
                        rows.size() - kMostShown);
  }
  return text;
}

std::string SpreadCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  return Csv(CsvRowsOf(SpreadTable(rows, &file)));
}

std::string TornadoCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  return Csv(CsvRowsOf(TornadoTable(rows, &file, "")));
}

std::string UncertaintyJson(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  json out = {{"seed", file.assumptions.seed},
              {"draws", kUncertainDraws},
              {"distribution", "triangular"},
              {"scenarios", json::array()}};
  for (const UncertainRow& row : rows) {
    json scenario = {{"at", AxisJson(file, row.at)},
                     {"spreads", JsonRows(SpreadTable({&row, 1}, &file))},
                     {"tornado", JsonRows(TornadoTable({&row, 1}, &file, ""))}};
    for (const Axis& axis : file.axes) {  // they are in "at"
      for (const char* list : {"spreads", "tornado"}) {
        for (json& one : scenario[list]) one.erase(axis.key);
      }
    }
    out["scenarios"].push_back(std::move(scenario));
  }
  return out.dump();
}

}  // namespace longhaul::simulator
