#include "experiments/estimates/step_time.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "pp_group/schedule.h"

namespace longhaul {
namespace {

constexpr double kNotYet = -1;

enum class Wires { kFullDuplex, kOneAReceiver };

class Recursion {
 public:
  Recursion(const Pipeline& p, std::vector<Program> programs, Wires wires)
      : p_(p),
        wires_(wires),
        stages_(static_cast<int>(p.stages.size())),
        programs_(std::move(programs)),
        clock_(p.stages.size(), 0),
        next_(p.stages.size(), 0),
        encoder_free_(p.stages.size(), 0),
        forward_free_(p.forward.size(), 0),
        backward_free_(p.backward.size(), 0),
        receiver_free_(p.stages.size(), 0) {}

  // Ends of one more step on every stage. InvalidArgument: a stage waits for what nobody sends.
  absl::StatusOr<std::vector<double>> Step() {
    const std::vector<double> none(static_cast<size_t>(p_.microbatches), kNotYet);
    arrived_forward_.assign(p_.stages.size(), none);
    arrived_backward_.assign(p_.stages.size(), none);
    std::fill(next_.begin(), next_.end(), 0);
    // What ends first runs first: two senders may share a receiver's wire.
    while (true) {
      int first = -1;
      double first_end = 0;
      for (int s = 0; s < stages_; ++s) {
        const double end =
            next_[s] < programs_[s].size() ? End(s, programs_[s][next_[s]]) : kNotYet;
        if (end == kNotYet || (first >= 0 && end >= first_end)) continue;
        first = s;
        first_end = end;
      }
      if (first < 0) break;
      Run(first, programs_[first][next_[first]++], first_end);
    }
    for (int s = 0; s < stages_; ++s) {
      if (next_[s] < programs_[s].size()) {
        return absl::InvalidArgumentError(fmt::format(
            "schedule '{}' gets stuck before {}", p_.schedule, ToString(programs_[s][next_[s]])));
      }
      clock_[s] += p_.stages[s].optimizer_s + p_.stages[s].other_s;
    }
    return clock_;
  }

 private:
  // kNotYet: its input is still to be sent.
  double End(int s, Action action) const {
    const bool forward = action.op == Op::kForward;
    const StageCost& cost = p_.stages[s];
    const bool has_input = forward ? s > 0 : s + 1 < stages_;
    const double arrived = !has_input ? 0
                           : forward  ? arrived_forward_[s][action.microbatch]
                                      : arrived_backward_[s][action.microbatch];
    if (arrived == kNotYet) return kNotYet;
    const double ready = has_input ? arrived + cost.decode_s : 0;
    return std::max(clock_[s], ready) + (forward ? cost.forward_s : cost.backward_s);
  }

  void Run(int s, Action action, double end) {
    const bool forward = action.op == Op::kForward;
    clock_[s] = end;
    if (forward && s + 1 < stages_) {
      arrived_forward_[s + 1][action.microbatch] =
          Send(p_.forward[s], forward_free_[s], s + 1, Encoded(s));
    }
    if (!forward && s > 0) {
      arrived_backward_[s - 1][action.microbatch] =
          Send(p_.backward[s - 1], backward_free_[s - 1], s - 1, Encoded(s));
    }
  }

  // One tensor after the other, while the stage goes on.
  double Encoded(int s) {
    encoder_free_[s] = std::max(encoder_free_[s], clock_[s]) + p_.stages[s].encode_s;
    return encoder_free_[s];
  }

  double Send(const BoundaryLink& link, double& free_at, int receiver, double handed_over) {
    if (wires_ == Wires::kOneAReceiver) {
      double& arrives = receiver_free_[static_cast<size_t>(receiver)];
      arrives = std::max(arrives, handed_over) + 8 * link.message_bytes / link.rate_bit_per_s +
                link.one_way_delay_s;
      return arrives;
    }
    const double start = std::max(free_at, handed_over);
    free_at = start + 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s;
    return free_at + link.one_way_delay_s;
  }

  const Pipeline& p_;
  const Wires wires_;
  const int stages_;
  const std::vector<Program> programs_;
  std::vector<double> clock_;
  std::vector<size_t> next_;
  std::vector<double> encoder_free_;
  std::vector<double> forward_free_, backward_free_;
  std::vector<double> receiver_free_;                                    // of kOneAReceiver
  std::vector<std::vector<double>> arrived_forward_, arrived_backward_;  // [stage][microbatch]
};

// The period of the steady state.
absl::StatusOr<double> Period(const Pipeline& pipeline, Wires wires) {
  constexpr int kFill = 4, kPeriods = 4;
  absl::StatusOr<Schedule> schedule = FindSchedule(pipeline.schedule);
  if (!schedule.ok()) return schedule.status();
  Recursion recursion(
      pipeline,
      Programs(*schedule, static_cast<int>(pipeline.stages.size()), pipeline.microbatches), wires);
  double filled = 0, end = 0;
  for (int step = 0; step < kFill + kPeriods; ++step) {
    absl::StatusOr<std::vector<double>> ends = recursion.Step();
    if (!ends.ok()) return ends.status();
    end = ends->front();
    if (step + 1 == kFill) filled = end;
  }
  return (end - filled) / kPeriods;
}

}  // namespace

absl::StatusOr<double> PredictStepSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kFullDuplex);
}

absl::StatusOr<double> OneWireSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kOneAReceiver);
}

double SerialSlotSeconds(const Pipeline& pipeline) {
  const double stages = static_cast<double>(pipeline.stages.size());
  double compute_s = 0, transfer_s = 0, rtt_s = 0;
  for (const StageCost& cost : pipeline.stages) {
    compute_s = std::max(compute_s, cost.forward_s + cost.backward_s);
  }
  for (size_t b = 0; b < pipeline.forward.size(); ++b) {
    const BoundaryLink &there = pipeline.forward[b], &back = pipeline.backward[b];
    transfer_s = std::max(transfer_s, 8 * there.message_bytes / there.rate_bit_per_s +
                                          8 * back.message_bytes / back.rate_bit_per_s);
    rtt_s = std::max(rtt_s, there.one_way_delay_s + back.one_way_delay_s);
  }
  const double slots = pipeline.microbatches + stages - 1;
  return slots * (compute_s + (transfer_s + rtt_s) * (1 + 0.05 * std::log2(stages)));
}

double MessageSeconds(const BoundaryLink& link) {
  return 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s + link.one_way_delay_s;
}

}  // namespace longhaul
