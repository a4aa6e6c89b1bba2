#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/trainer.h"

namespace longhaul {

// What the pipeline of a spec does: its named schedule's program, or its own. InvalidArgument: an
// unknown schedule, or one that is not made for these stages, chunks and micro-batches; a program
// that does not run to its end, or not in an order that gives equal bits.
absl::StatusOr<PipelineProgram> ProgramOf(const TrainSpec& spec);

// Of a spec that has been checked: which rank of its pipeline holds each stage.
std::vector<int> RanksOfStages(const TrainSpec& spec);

// How many channels of samples `windows` samples want, of kSampleChannel.
int64_t SampleChannels(const PipelineProgram& program, int64_t windows);

// Of a spec whose fields are within their bounds and fit each other (the reader of specs checks
// that), what hangs on more than the spec: its data, engines, codecs, the length of the run.
// InvalidArgument naming the field, what was seen and what is wanted.
absl::Status CheckTrainSpec(const TrainSpec& spec, const Corpus& corpus);
// `elastic`: peers of other groups are met through a RoundKeeper.
// Of each rank all stages are there.
absl::Status CheckLocalRanks(const TrainSpec& spec, const PipelineProgram& program,
                             const std::vector<LocalRank>& ranks, bool elastic = false);

// Everything that decides the result, one "field=value" a line, doubles exactly: two runs with
// equal text train alike.
std::string CanonicalText(const TrainSpec& spec, const Corpus& corpus);

// The first line in which two canonical texts differ, as "'a' against 'b'".
std::string FirstDifference(const std::string& a, const std::string& b);

}  // namespace longhaul
