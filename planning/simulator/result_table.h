#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/estimates/table.h"
#include "planning/simulator/scenario_file.h"

namespace longhaul::simulator {

// A scenario of a file and what came out; of a search, for one target value.
struct ResultRow {
  std::vector<size_t> at;  // value index per axis
  Scenario scenario;
  Outcome outcome;
  double at_least = 0;  // of a search, FLOP
  bool found = true;    // of a search: false where most_nodes do not reach it
};

// A reported quantity, in SI units; its name as CSV and JSON have it.
struct Quantity {
  const char* name;
  double (*get)(const ResultRow& row);
};
std::span<const Quantity> Quantities();

// Every scenario of a file, in its order, as it comes out.
absl::Status RunScenarios(const ScenarioFile& file,
                          const std::function<void(const ResultRow&)>& use);

// The lists of a file as a table's first columns, and a scenario's places in them: as cells, and as
// {"network.nodes":"500",...}.
std::vector<Column> AxisColumns(const ScenarioFile& file);
std::vector<Cell> AxisCells(const ScenarioFile& file, const std::vector<size_t>& at);
nlohmann::json AxisJson(const ScenarioFile& file, const std::vector<size_t>& at);
// "network.nodes 500, case central"; of a [[scenario]] its name. "": the file has no lists.
std::string PlaceText(const ScenarioFile& file, const std::vector<size_t>& at);
std::string NameOf(const ScenarioFile& file, const std::vector<size_t>& at);  // never empty

// "profile governance, replica form linear, ..." and the switches that differ from the profile:
// what every table starts with.
std::string ProfileText(const ScenarioFile& file);

// The terminal's table: at most kMostLines rows, then how many more there are, then each warning.
class ResultText {
 public:
  static constexpr size_t kMostLines = 200;
  explicit ResultText(const ScenarioFile& file);
  void Add(const ResultRow& row);
  std::string Text() const;

 private:
  const ScenarioFile& file_;
  Table table_;
  size_t rows_ = 0;
  std::set<std::string> warnings_;
};

// All columns at full precision, one line each, with its newline.
std::string CsvHeader(const ScenarioFile& file);
std::string CsvLine(const ScenarioFile& file, const ResultRow& row);

// {"schema":"longhaul.simulate/1","profile":...,"switches":{...},"differs":[...],"rows":[ as three pieces:
// the head up to the bracket, one object per row, and what closes it. SI units, names as in the
// CSV.
std::string JsonHead(const ScenarioFile& file);
std::string JsonRow(const ScenarioFile& file, const ResultRow& row);
// `more`: members after the rows, such as "\"calibration\":{...}"; "" for none.
std::string JsonTail(const std::string& more = "");

}  // namespace longhaul::simulator
