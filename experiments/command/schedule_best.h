#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/step_time.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// One direction of every link of a pipeline.
struct OneLink {
  double rate_bit_per_s, one_way_delay_s;
};
// Of a profile's name. InvalidArgument: a topology file, or no profile of that name.
absl::StatusOr<OneLink> LinkOfProfile(const std::string& profile);

// What a rank does for one micro-batch, whatever its stages, and once a step.
struct RankCompute {
  double forward_s, backward_s, optimizer_s = 0;
  bool splits = false;  // its stages split the backward pass: W is half of it
};

// `spec`'s pipeline, whose every rank has this work, over such links: what P2 takes. Bytes are the
// codecs'; coding takes no time. Errors: PipelineOf's; a codec that takes no such tensor.
absl::StatusOr<Pipeline> PipelineOver(const RunSpec& spec, const RankCompute& compute,
                                      const OneLink& link);

// A schedule of `spec`'s P ranks.
struct RankedSchedule {
  RunSpec spec;          // with that schedule
  double step_s = 0;     // P2
  double alone_s = 0;    // the same where links take no time
  int activations = 0;   // the most that a rank has live, of 1/chunks of its model each
  int64_t memory = 0;    // of the largest worker, bytes
  int64_t messages = 0;  // of a step, of the rank that sends most
  bool within = true;    // the memory bound
};

// All schedules of the table that P ranks, M micro-batches and the model's blocks admit, each with up
// to four chunks and every depth that says something else; those within `memory_bound` first, by
// step time. `memory` says what a worker takes.
absl::StatusOr<std::vector<RankedSchedule>> RankSchedules(
    const RunSpec& spec, const RankCompute& compute, const OneLink& link,
    std::optional<int64_t> memory_bound, const std::function<int64_t(const RunSpec&)>& memory);

}  // namespace longhaul
