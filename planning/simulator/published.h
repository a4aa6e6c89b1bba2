#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/toml_tree.h"

namespace longhaul::simulator {

// A value as a document prints it: "9.52e23", "0.862", "97". Empty: the document has none there.
struct PublishedValue {
  std::string printed;
  // Why the document's own formulas do not give it; empty where they do.
  std::string misprint;
};

// "9.52e23" or "9.52e23 (misprint: no variant of the formulas gives it)"; "" or "-" is no value.
// InvalidArgument, one line: no number, or another remark behind it.
absl::StatusOr<PublishedValue> ParsePublished(std::string_view text);
// `value` with as many digits behind the point as `printed` has, and with an exponent where that has
// one: "9.47e23" beside "9.52e23". `printed` is a number, as ParsePublished has checked.
std::string AsPrinted(double value, std::string_view printed);

// What a file's table shows: the columns by name, in order, and the published values of some.
struct PlanningTable {
  std::vector<std::string>
      columns;  // names of table_columns.h; empty: the table that all files have
  std::map<std::string, std::vector<PublishedValue>> published;  // one for each row of the table
  double threshold = 0;                                          // FLOP, of "times_threshold"
  bool any() const { return !columns.empty(); }
};

// The keys `columns`, `published` and `threshold` of a file whose table has `rows` rows, `per_named`
// of them for each element of [[scenario]]. Published values stand in [published] as a list for all rows,
// or in each [[scenario]] as one value or a list. InvalidArgument with file and line: an unknown
// column, another number of values than rows, both places at once.
absl::StatusOr<PlanningTable> ReadPlanningTable(const TomlValue& root, size_t rows,
                                                size_t per_named);

}  // namespace longhaul::simulator
