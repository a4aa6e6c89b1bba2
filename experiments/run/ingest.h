#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"
#include "experiments/run/event_folder.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Facts of a run whose workers no command of ours started.
constexpr char kFirstAttemptFact[] = "first_attempt";  // Attempt::id: which run these events are of
constexpr char kAttemptsTakenFact[] = "attempts_taken";

struct Ingested {
  int64_t run;
  absl::Status outcome;              // RunRecorder::Finish of the last attempt
  std::vector<std::string> notices;  // what a person should know, one line each
};

// Whether a record can be made of these. Unavailable: a worker still runs. FailedPrecondition: no
// start in which all ranks met, with what they said; a rank whose events are not here. DataLoss: a
// rank that the run does not have.
absl::Status CheckEvents(const RunSpec& spec, const EventFolder& events);

// Writes the run whose workers left these events into the record, start by start, as RunRecorder
// does while it watches one. A second call adds the starts that came after the first, or says that
// there are none. The links are not ours: the record has none, its profile is "external".
// Errors as CheckEvents.
absl::StatusOr<Ingested> IngestEvents(Record& record, int64_t experiment, const std::string& arm,
                                      const RunSpec& spec, const EventFolder& events);

}  // namespace longhaul
