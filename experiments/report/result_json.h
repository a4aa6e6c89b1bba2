#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "experiments/estimates/timing_findings.h"
#include "experiments/record/record.h"
#include "experiments/report/listing.h"

namespace longhaul {

// One JSON document per command, for programs that call `longhaul`; docs/records.md has the
// fields. "schema" names kind and version. Units stand in keys; what is not there, and what is not
// finite, is null. Always valid UTF-8: other bytes (of a path, say) are replaced.

// "longhaul.list/1"
std::string ListJson(std::span<const ListedRecord> records);

// "longhaul.run/1": the run's row, its evaluations, step time, crossings and links. `outcome` is
// how it ended; its message becomes "error", null when OK.
std::string RunJson(const Record& record, int64_t run, const absl::Status& outcome);

// "longhaul.measure/1": the experiment as `list` shows it, with its estimates.
std::string CampaignJson(const Record& record, int64_t experiment, const absl::Status& outcome);

// The same of a timing grid: "timing" has a cell a row, with the columns of TimingRows.
std::string TimingJson(const Record& record, int64_t experiment, const TimingFindings& findings,
                       const absl::Status& outcome);

// What is printed in their place where nothing had been recorded yet: schema and error alone.
std::string ErrorJson(const std::string& schema, const absl::Status& error);

}  // namespace longhaul
