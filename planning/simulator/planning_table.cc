#include "planning/simulator/planning_table.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/simulate.h"
#include "planning/simulator/switches.h"

namespace longhaul::simulator {
namespace {

constexpr size_t kMostWarnings = 20;

const PublishedValue* PublishedAt(const PlanningTable& table, const std::string& column,
                                  size_t row) {
  const auto found = table.published.find(column);
  return found == table.published.end() ? nullptr : &found->second[row];
}

PlanningCell CellOf(const TableColumn& column, double value, const PublishedValue* published) {
  PlanningCell cell{.value = value, .published = {}, .agrees = true, .text = ""};
  if (published != nullptr) cell.published = *published;
  const std::string& printed = cell.published.printed;
  cell.text = printed.empty() ? Formatted(column, value) : AsPrinted(value, printed);
  cell.agrees = printed.empty() || cell.text == printed;
  return cell;
}

// The rows that have one best: those of a [[scenario]], each a table of its own, or all rows where
// each [[scenario]] is one row.
size_t GroupOf(const ScenarioFile& file, const ResultRow& row) {
  return file.named.empty() || file.axes.size() == 1 ? 0 : row.at.front();
}

std::string NameOfRow(const ScenarioFile& file, const ResultRow& row) {
  if (!file.search) return NameOf(file, row.at);
  const std::string name = PlaceText(file, row.at);
  return fmt::format("{}{}>= {:g}", name, name.empty() ? "" : ", ", row.at_least);
}

std::string CheckText(const PlanningCells& cells) {
  size_t checked = 0, agree = 0;
  std::string text;
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    for (size_t c = 0; c < cells.cells[i].size(); ++c) {
      const PlanningCell& cell = cells.cells[i][c];
      if (cell.published.printed.empty()) continue;
      ++checked;
      agree += cell.agrees;
      if (cell.agrees && cell.published.misprint.empty()) continue;
      const std::string at =
          fmt::format("{}, {}: printed {}, computed {}", NameOfRow(cells.file, cells.rows[i]),
                      cells.file.table.columns[c], cell.published.printed, cell.text);
      if (cell.agrees) {
        text += fmt::format("no misprint: {}\n", at);
      } else if (cell.published.misprint.empty()) {
        text += fmt::format("DIFFERS: {}\n", at);
      } else {
        text += fmt::format("misprint: {}: {}\n", at, cell.published.misprint);
      }
    }
  }
  if (checked == 0) return "";
  return fmt::format(
      "{} published values, compared at their printed digits: {} agree, {} do not\n{}", checked,
      agree, checked - agree, text);
}

// The first `most` rows.
Table TableOf(const PlanningCells& cells, size_t most) {
  const ScenarioFile& file = cells.file;
  Table table{.columns = AxisColumns(file)};
  if (file.search) {
    table.columns.emplace_back(file.search->target_name + " >=",
                               std::vector<std::string>{"at_least"});
    table.AddColumns(ColumnsOf("-:found"));
  }
  table.AddColumns(ColumnsOf("-:profile | mode:mode"));
  for (const std::string& name : file.table.columns) {
    table.columns.emplace_back(std::string(FindTableColumn(name)->head), std::vector{name});
    if (!file.table.published.contains(name)) continue;
    table.AddColumns(ColumnsOf(fmt::format("-:{0}_published | -:{0}_agrees", name)));
  }
  for (size_t i = 0; i < std::min(cells.rows.size(), most); ++i) {
    const ResultRow& row = cells.rows[i];
    std::vector<Cell> line = AxisCells(file, row.at);
    if (file.search) line.insert(line.end(), {Cell(row.at_least, "{:g}"), row.found});
    const std::string mode(NameOf(row.outcome.mode));
    line.insert(
        line.end(),
        {NameOf(row.scenario.profile),
         Cell::Shown(row.found ? mode : fmt::format("> {} nodes", file.search->most_nodes), mode)});
    for (size_t c = 0; c < cells.cells[i].size(); ++c) {
      const PlanningCell& cell = cells.cells[i][c];
      const std::string& printed = cell.published.printed;
      line.push_back(Cell::Shown(
          cell.agrees ? cell.text : fmt::format("{} ({})", cell.text, printed), cell.value));
      if (!file.table.published.contains(file.table.columns[c])) continue;
      line.insert(line.end(), {printed, printed.empty() ? Cell::None() : Cell(cell.agrees)});
    }
    table.Add(std::move(line));
  }
  return table;
}

}  // namespace

PlanningCells::PlanningCells(const ScenarioFile& of, std::vector<ResultRow> all)
    : file(of), rows(std::move(all)), cells(rows.size()) {
  std::map<size_t, double> best;
  for (const ResultRow& row : rows) {
    double& most = best[GroupOf(file, row)];
    most = std::max(most, row.outcome.local);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].found) continue;
    const TableContext context{.threshold = file.table.threshold,
                               .best = best[GroupOf(file, rows[i])]};
    for (const std::string& name : file.table.columns) {
      const TableColumn& column = *FindTableColumn(name);  // as the reader has checked
      cells[i].push_back(
          CellOf(column, column.Get(rows[i], context), PublishedAt(file.table, name, i)));
    }
  }
}

std::string PlanningText(const PlanningCells& cells) {
  std::set<std::string> warnings;
  for (const ResultRow& row : cells.rows) {
    for (std::string& warning : WarningTexts(row.scenario, row.outcome)) {
      if (warnings.size() < kMostWarnings) warnings.insert(std::move(warning));
    }
  }
  std::string text = GridText(TableOf(cells, ResultText::kMostLines));
  if (cells.rows.size() > ResultText::kMostLines) {
    text += fmt::format("... and {} rows more; --csv FILE holds all\n",
                        cells.rows.size() - ResultText::kMostLines);
  }
  text += CheckText(cells);
  for (const std::string& warning : warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string PlanningCsv(const PlanningCells& cells) {
  return Csv(CsvRowsOf(TableOf(cells, cells.rows.size())));
}

std::string PlanningJson(const PlanningCells& cells) {
  using nlohmann::json;
  std::string text = JsonHead(cells.file);
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    json row = json::parse(JsonRow(cells.file, cells.rows[i]));
    for (size_t c = 0; c < cells.cells[i].size(); ++c) {
      const PlanningCell& cell = cells.cells[i][c];
      const std::string& name = cells.file.table.columns[c];
      row["shown"][name] = cell.value;
      if (cell.published.printed.empty()) continue;
      json& published = row["published"][name];
      published = {{"printed", cell.published.printed}, {"agrees", cell.agrees}};
      if (!cell.published.misprint.empty()) published["misprint"] = cell.published.misprint;
    }
    text += (i == 0 ? "\n" : ",\n") + row.dump();
  }
  return text;
}

}  // namespace longhaul::simulator
