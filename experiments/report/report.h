#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"

namespace longhaul {

struct ReportOptions {
  std::string python;  // interpreter that has matplotlib; empty: tables without figures
  std::string out;     // folder to write into; empty: <record's folder>/report
};

// Writes OUT/index.html, self-contained (styles and figures inlined, nothing is fetched), from the
// record alone: training is never recomputed. Beside it: OUT/tables/*.csv, every table of the
// record; OUT/<experiment>/*.csv, what the figures were drawn from; for a campaign
// OUT/<experiment>/calibration.json. Where there is no matplotlib the page says so and keeps its
// tables. Returns the path of index.html.
absl::StatusOr<std::string> WriteReport(const Record& record, const ReportOptions& options);

}  // namespace longhaul
