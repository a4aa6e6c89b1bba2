#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// Pipeline schedules as pure data: no tensors, no threads, no clock. Letters as in README.md:
// S stages, M micro-batches. An executor runs a Program, schedule_check.h proves it.
//
// Communication is implied. kForward m of stage s receives its input from stage s-1 and sends its
// output to s+1; kBackward m of stage s receives a gradient from s+1 and sends one to s-1.
enum class Op { kForward, kBackward };

struct Action {
  int stage;
  Op op;
  int microbatch;
  friend bool operator==(const Action&, const Action&) = default;
};

using Program = std::vector<Action>;  // what one stage does, in order

std::string ToString(const Action& action);    // "2F0"
std::string ToString(const Program& program);  // "0F0 0F1 0B0 0B1"

// All forwards, then all backwards, both in micro-batch order.
//   bubble fraction  (S-1)/(M+S-1), forward and backward of equal cost on every stage
//   peak activations M micro-batches on every stage
//   crossings        2(S-1) tensors per micro-batch
Program GPipe(int stage, int num_stages, int num_microbatches);

// One forward, one backward (PipeDream-flush): min(S-1-s, M) forwards of warm-up, then forward and
// backward in turn, then the remaining backwards. Same operations per stage and tensor as GPipe,
// same order of every sum: the bits are equal.
//   bubble fraction  (S-1)/(M+S-1), as GPipe: the gain is memory, not time
//   peak activations min(S-s, M) micro-batches on stage s
//   crossings        2(S-1) tensors per micro-batch
Program OneForwardOneBackward(int stage, int num_stages, int num_microbatches);

// Bytes on the wire per micro-batch of B/M rows: 2(S-1) * (B/M) * T * D * bits per element / 8,
// where the bits are those of each direction's codec (32 for "none").

// One line of the table of schedules in schedule.cc.
struct Schedule {
  std::string_view name;
  Program (*program)(int stage, int num_stages, int num_microbatches);
  int (*peak_activations)(int stage, int num_stages, int num_microbatches);  // bound, micro-batches
};

// InvalidArgument: unknown name; the message lists the known ones.
absl::StatusOr<Schedule> FindSchedule(std::string_view name);
std::vector<std::string> ScheduleNames();

// The program of every stage, checked by nobody yet.
std::vector<Program> Programs(const Schedule& schedule, int num_stages, int num_microbatches);

// Share of the S * (makespan) stage-time in which a stage of an ideal pipeline is idle: unit cost
// for each action, no communication time. Exact for any schedule that passes CheckSchedule.
double BubbleFraction(const std::vector<Program>& programs);

}  // namespace longhaul
