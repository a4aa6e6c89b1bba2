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
size_t TableOf(const ScenarioFile& file, const ResultRow& row) {
  return file.named.empty() || file.axes.size() == 1 ? 0 : row.at.front();
}

std::string NameOfRow(const ScenarioFile& file, const ResultRow& row) {
  std::string name;
  for (size_t a = 0; a < file.axes.size(); ++a) {
    const bool named = file.axes[a].set == nullptr;
    name += (name.empty() ? "" : ", ") + (named ? "" : file.axes[a].key + " ") +
            file.axes[a].labels[row.at[a]];
  }
  if (file.search) name += fmt::format("{}>= {:g}", name.empty() ? "" : ", ", row.at_least);
  return name.empty() ? "the scenario" : name;
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

std::vector<std::string> AxisCells(const ScenarioFile& file, const ResultRow& row) {
  std::vector<std::string> cells;
  for (size_t a = 0; a < file.axes.size(); ++a) cells.push_back(file.axes[a].labels[row.at[a]]);
  if (file.search) cells.push_back(fmt::format("{:g}", row.at_least));
  return cells;
}

std::vector<std::string> AxisHeads(const ScenarioFile& file) {
  std::vector<std::string> heads;
  for (const Axis& axis : file.axes) heads.push_back(axis.key);
  if (file.search) heads.push_back(file.search->target_name + " >=");
  return heads;
}

}  // namespace

PlanningCells::PlanningCells(const ScenarioFile& of, std::vector<ResultRow> all)
    : file(of), rows(std::move(all)), cells(rows.size()) {
  std::map<size_t, double> best;
  for (const ResultRow& row : rows) {
    double& most = best[TableOf(file, row)];
    most = std::max(most, row.outcome.local);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].found) continue;
    const TableContext context{.threshold = file.table.threshold,
                               .best = best[TableOf(file, rows[i])]};
    for (const std::string& name : file.table.columns) {
      const TableColumn& column = *FindTableColumn(name);  // as the reader has checked
      cells[i].push_back(
          CellOf(column, column.get(rows[i], context), PublishedAt(file.table, name, i)));
    }
  }
}

std::string PlanningText(const PlanningCells& cells) {
  const ScenarioFile& file = cells.file;
  std::vector<std::string> heads = AxisHeads(file);
  heads.emplace_back("mode");
  for (const std::string& name : file.table.columns) {
    heads.emplace_back(FindTableColumn(name)->head);
  }
  TextTable table(std::move(heads));
  std::set<std::string> warnings;
  const size_t shown = std::min(cells.rows.size(), ResultText::kMostLines);
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    const ResultRow& row = cells.rows[i];
    for (std::string& warning : WarningTexts(row.scenario, row.outcome)) {
      if (warnings.size() < kMostWarnings) warnings.insert(std::move(warning));
    }
    if (i >= shown) continue;
    std::vector<std::string> line = AxisCells(file, row);
    if (!row.found) {
      line.push_back(fmt::format("> {} nodes", file.search->most_nodes));
    } else {
      line.emplace_back(NameOf(row.outcome.mode));
      for (const PlanningCell& cell : cells.cells[i]) {
        line.push_back(cell.agrees ? cell.text
                                   : fmt::format("{} ({})", cell.text, cell.published.printed));
      }
    }
    table.Add(std::move(line));
  }
  std::string text = table.Text();
  if (shown < cells.rows.size()) {
    text += fmt::format("... and {} rows more; --csv FILE holds all\n", cells.rows.size() - shown);
  }
  text += CheckText(cells);
  for (const std::string& warning : warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string PlanningCsv(const PlanningCells& cells) {
  const ScenarioFile& file = cells.file;
  std::string text;
  for (const Axis& axis : file.axes) text += axis.key + ",";
  if (file.search) text += "at_least,found,";
  text += "profile,mode";
  for (const std::string& name : file.table.columns) {
    text += "," + name;
    if (file.table.published.contains(name)) text += fmt::format(",{0}_published,{0}_agrees", name);
  }
  text += "\n";
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    const ResultRow& row = cells.rows[i];
    for (const std::string& cell : AxisCells(file, row)) text += cell + ",";
    if (file.search) text += row.found ? "1," : "0,";
    text += fmt::format("{},{}", NameOf(row.scenario.profile), NameOf(row.outcome.mode));
    for (size_t c = 0; c < file.table.columns.size(); ++c) {
      const bool published = file.table.published.contains(file.table.columns[c]);
      if (!row.found) {
        text += published ? ",,," : ",";
        continue;
      }
      const PlanningCell& cell = cells.cells[i][c];
      text += fmt::format(",{}", cell.value);
      if (!published) continue;
      const std::string& printed = cell.published.printed;
      text += fmt::format(",{},{}", printed, printed.empty() ? "" : cell.agrees ? "1" : "0");
    }
    text += "\n";
  }
  return text;
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
