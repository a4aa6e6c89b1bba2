// What comes of ranges in [assume], as text, CSV and JSON.
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/table_json.h"
#include "planning/simulator/uncertainty.h"

namespace longhaul::simulator {
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
