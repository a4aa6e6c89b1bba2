#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planning/simulator/result_table.h"

namespace longhaul::simulator {

// What a cell may ask beside its own row.
struct TableContext {
  double threshold = 0;  // FLOP; 0: the file has none
  double best =
      0;  // FLOP, the most C_local of a table: of a [[scenario]] with lists, else of all rows
};

// A column that a file may choose: a quantity in the units of documents.
struct TableColumn {
  std::string_view name;  // "cost_musd"
  std::string_view head;  // "cost, M$"
  std::string_view form;  // of a value that nobody published: "1.75e25", "0.858", as fmt says it
  double (*get)(const ResultRow& row, const TableContext& context);
};
std::span<const TableColumn> TableColumns();
// nullptr: no such name.
const TableColumn* FindTableColumn(std::string_view name);
// "c_local, c_quality, ...": for messages.
std::string TableColumnNames();
// `value` in the column's own form.
std::string Formatted(const TableColumn& column, double value);

}  // namespace longhaul::simulator
