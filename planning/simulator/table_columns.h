#pragma once

#include <string>
#include <string_view>

#include "planning/simulator/result_table.h"
#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// What the event engine that runs and their predictions use (pp_group/schedule) says of a scenario,
// beside the formulas' T_step and T_sync: the same seconds of compute, bits, rates and round trips, as
// a run of this program would spend them. Seconds.
struct EngineTimes {
  // A step of 1F1B: passes one third forward and two thirds backward, both directions of a link at
  // once, transfer under way while stages compute. Of one stage: T_step.
  double step;
  // Every stage sends what it changed, V_b/S, to its peer in every other group (flat: every node V_b to
  // every other) over its own access line, all of them at once. Headers of frames and TCP's slow start
  // included. 0: nobody to send to.
  double sync;
};

// NaN where the engine has no such run: more than 1024 stages or micro-batches.
EngineTimes EngineTimesOf(const Scenario& scenario, const Outcome& outcome);

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
  std::string_view quantity;  // of Quantities(), in units of `unit`; "": `own` has it
  double unit = 1;
  double (*own)(const ResultRow& row, const TableContext& context) = nullptr;
  double Get(const ResultRow& row, const TableContext& context) const;
};
// nullptr: no such name.
const TableColumn* FindTableColumn(std::string_view name);
// "c_local, c_quality, ...": for messages.
std::string TableColumnNames();
// `value` in the column's own form.
std::string Formatted(const TableColumn& column, double value);

}  // namespace longhaul::simulator
