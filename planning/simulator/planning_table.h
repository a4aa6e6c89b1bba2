#pragma once

#include <string>
#include <vector>

#include "planning/simulator/result_table.h"
#include "planning/simulator/table_columns.h"

namespace longhaul::simulator {

// One value of a table with columns of its own, and what a document prints there.
struct PlanningCell {
  double value = 0;          // in the column's unit
  PublishedValue published;  // printed is "" where the document has none
  // The printed digits are those of `value`; true where nothing is printed.
  bool agrees = true;
  std::string text;  // with the digits that are printed, else in the column's own form
};

// The rows of a file with `columns`, in order, and its published values beside them.
struct PlanningCells {
  PlanningCells(const ScenarioFile& file, std::vector<ResultRow> rows);
  const ScenarioFile& file;
  std::vector<ResultRow> rows;
  std::vector<std::vector<PlanningCell>>
      cells;  // [row][column]; empty where a search found nothing
};

// The terminal's table, then what of the published values agrees and each that does not, with the
// misprint's reason or the words that there is none; then each warning.
std::string PlanningText(const PlanningCells& cells);
// axes, mode, then for each column its value at full precision and, where anything is published,
// NAME_published and NAME_agrees (1, 0, or nothing).
std::string PlanningCsv(const PlanningCells& cells);
// As longhaul.simulate/1, with "shown" and "published" in each row.
std::string PlanningJson(const PlanningCells& cells);

}  // namespace longhaul::simulator
