#include "pp_group/schedule/makespan.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr double kNotYet = -1;

}  // namespace

double PipelineCosts::Stage::Of(Op op) const {
  switch (op) {
    case Op::kForward:
      return forward_s;
    case Op::kBackward:
      return backward_s;
    case Op::kInputGradient:
      return input_gradient_s;
    case Op::kWeightGradient:
      break;
  }
  return weight_gradient_s;
}

Timeline::Timeline(const PipelineProgram& program, const PipelineCosts& costs, Wires wires)
    : program_(program),
      costs_(costs),
      wires_(wires),
      clock_(program.ranks.size(), 0),
      encoder_free_(program.ranks.size(), 0),
      wires_used_(program.ranks.size() * program.ranks.size()) {}

absl::StatusOr<std::vector<double>> Timeline::Step() {
  if (absl::Status s = Actions(); !s.ok()) return s;
  Update();
  return clock_;
}

absl::Status Timeline::Actions() {
  const size_t messages =
      static_cast<size_t>(program_.num_stages()) * static_cast<size_t>(program_.microbatches);
  for (auto& arrived : arrived_) arrived.assign(messages, kNotYet);
  done_.assign(program_.ranks.size(), {});
  carried_.clear();
  std::vector<size_t> next(program_.ranks.size(), 0);
  // What ends first runs first: two senders may share a receiver's wire.
  while (true) {
    int first = -1;
    double first_end = 0;
    for (int rank = 0; rank < program_.num_ranks(); ++rank) {
      const Program& own = program_.ranks[rank];
      const double end = next[rank] < own.size() ? EndOf(rank, own[next[rank]]) : kNotYet;
      if (end == kNotYet || (first >= 0 && end >= first_end)) continue;
      first = rank;
      first_end = end;
    }
    if (first < 0) break;
    Run(first, program_.ranks[first][next[first]++], first_end);
  }
  for (int rank = 0; rank < program_.num_ranks(); ++rank) {
    const Program& own = program_.ranks[rank];
    if (next[rank] < own.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule: stuck before ", ToString(own[next[rank]])));
    }
  }
  if (costs_.tied) AddTied();
  return absl::OkStatus();
}

void Timeline::Update() {
  for (int rank = 0; rank < program_.num_ranks(); ++rank) {
    clock_[rank] += costs_.ranks[rank].step_s;
  }
}

void Timeline::WaitUntil(int rank, double s) { clock_[rank] = std::max(clock_[rank], s); }

void Timeline::Restart(double s) {
  clock_.assign(clock_.size(), s);
  encoder_free_.assign(encoder_free_.size(), s);
  wires_used_.assign(wires_used_.size(), {});
}

void Timeline::AddTied() {
  const int first = program_.rank_of_stage.front(), last = program_.rank_of_stage.back();
  if (first == last) return;
  const auto take = [this](const PipelineCosts::Wire& wire, int from, int to) {
    const Sent sent = Take(wire, from, to, std::max(clock_[from], encoder_free_[from]));
    carried_.push_back({from, to, std::nullopt, sent});
    return sent;
  };
  const Sent there = take(costs_.tied->to_last, first, last);
  const Sent back = take(costs_.tied->to_first, last, first);
  clock_[first] = std::max({clock_[first], there.left, back.arrived});
  clock_[last] = std::max({clock_[last], back.left, there.arrived});
}

Sent Timeline::Take(const PipelineCosts::Wire& wire, int from, int to, double ready) {
  if (wires_ == Wires::kOneAReceiver) {
    const Sent held =
        longhaul::Take({.busy_s = wire.busy_s + wire.delay_s}, ready, &wires_used_[to]);
    return {held.left, held.left, held.begun};
  }
  Connection& connection = Used(from, to);
  const Sent sent = longhaul::Take(wire, ready, &connection);
  if (connection.by_segments) Revise(from, to, connection);
  return sent;
}

// What was sent before and is not there yet may come sooner for what follows it. Nobody has gone on with
// it: actions run in the order of their ends, and this message was made before that one was there.
void Timeline::Revise(int from, int to, const Connection& connection) {
  const auto& messages = connection.by_segments->messages();
  auto before = messages.rbegin() + 1;  // the last one is new
  for (auto c = carried_.rbegin(); c != carried_.rend() && before != messages.rend(); ++c) {
    if (c->from != from || c->to != to) continue;
    c->times.arrived = before->arrived;
    if (c->message) Arrival(*c->message) = before->arrived;
    ++before;
  }
}

// kNotYet: its input is still to be made.
double Timeline::EndOf(int rank, const Action& action) const {
  double ready = 0;
  if (const std::optional<Message> input = InputOf(action, program_.num_stages())) {
    ready = Arrival(*input);
    if (ready == kNotYet) return kNotYet;
    if (program_.rank_of_stage[input->from_stage] != rank) ready += costs_.ranks[rank].decode_s;
  }
  return std::max(clock_[rank], ready) + costs_.stages[action.stage].Of(action.op);
}

void Timeline::Run(int rank, const Action& action, double end) {
  clock_[rank] = end;
  done_[static_cast<size_t>(rank)].push_back(
      {action, end - costs_.stages[action.stage].Of(action.op), end});
  const std::optional<Message> output = OutputOf(action, program_.num_stages());
  if (output) Send(*output, rank, end);
}

void Timeline::Send(const Message& message, int from, double made) {
  const int to = program_.rank_of_stage[message.to_stage];
  if (to == from) {
    Arrival(message) = made;
    return;
  }
  const auto& kind =
      message.kind == MessageKind::kActivation ? costs_.activations : costs_.gradients;
  encoder_free_[from] = std::max(encoder_free_[from], made) + costs_.ranks[from].encode_s;
  const Sent sent = Take(kind[message.boundary()], from, to, encoder_free_[from]);
  Arrival(message) = sent.arrived;
  carried_.push_back({from, to, message, sent});
}

double& Timeline::Arrival(const Message& m) {
  return arrived_[static_cast<int>(m.kind)]
                 [static_cast<size_t>(m.to_stage) * program_.microbatches + m.microbatch];
}

double Timeline::Arrival(const Message& m) const { return const_cast<Timeline*>(this)->Arrival(m); }

absl::StatusOr<double> Makespan(const PipelineProgram& program, const PipelineCosts& costs,
                                Wires wires) {
  Timeline timeline(program, costs, wires);
  const absl::StatusOr<std::vector<double>> ends = timeline.Step();
  if (!ends.ok()) return ends.status();
  return ends->empty() ? 0 : *std::max_element(ends->begin(), ends->end());
}

absl::StatusOr<double> StepPeriod(const PipelineProgram& program, const PipelineCosts& costs,
                                  Wires wires) {
  constexpr int kFill = 4, kPeriods = 4;
  Timeline timeline(program, costs, wires);
  double filled = 0, end = 0;
  for (int step = 0; step < kFill + kPeriods; ++step) {
    const absl::StatusOr<std::vector<double>> ends = timeline.Step();
    if (!ends.ok()) return ends.status();
    end = ends->front();
    if (step + 1 == kFill) filled = end;
  }
  return (end - filled) / kPeriods;
}

double LeastStepPeriod(const PipelineProgram& program, const PipelineCosts& costs) {
  const size_t stages = program.rank_of_stage.size(), ranks = program.ranks.size();
  const bool splits = program.HasSplitBackward();
  const double m = program.microbatches;
  std::vector<double> busy(ranks, 0.0), wires(ranks * ranks, 0.0);
  double through = (m - 1) * costs.stages.front().forward_s;
  for (size_t s = 0; s < stages; ++s) {
    const PipelineCosts::Stage& stage = costs.stages[s];
    const auto rank = static_cast<size_t>(program.rank_of_stage[s]);
    const double gradient_s =
        splits ? std::min(stage.input_gradient_s, stage.backward_s) : stage.backward_s;
    const double whole_s =
        splits ? std::min(stage.input_gradient_s + stage.weight_gradient_s, stage.backward_s)
               : stage.backward_s;
    busy[rank] += m * (stage.forward_s + whole_s);
    through += stage.forward_s + gradient_s;
    if (s + 1 == stages) continue;
    const auto next = static_cast<size_t>(program.rank_of_stage[s + 1]);
    if (next == rank) continue;
    const PipelineCosts::Wire &there = costs.activations[s], &back = costs.gradients[s];
    wires[rank * ranks + next] += m * there.busy_s;
    wires[next * ranks + rank] += m * back.busy_s;
    through += there.busy_s + there.delay_s + back.busy_s + back.delay_s;
  }
  double least = through + costs.ranks[static_cast<size_t>(program.rank_of_stage.front())].step_s;
  for (size_t r = 0; r < ranks; ++r) least = std::max(least, busy[r] + costs.ranks[r].step_s);
  return std::max(least, *std::max_element(wires.begin(), wires.end()));
}

double BubbleFraction(const PipelineProgram& program, double backward_units) {
  const PipelineCosts::Stage unit{
      .forward_s = 1, .backward_s = backward_units, .input_gradient_s = 1, .weight_gradient_s = 1};
  const size_t stages = static_cast<size_t>(program.num_stages());
  const PipelineCosts costs{.stages = std::vector<PipelineCosts::Stage>(stages, unit),
                            .ranks = std::vector<PipelineCosts::Rank>(program.ranks.size()),
                            .activations = std::vector<PipelineCosts::Wire>(stages),
                            .gradients = std::vector<PipelineCosts::Wire>(stages)};
  const absl::StatusOr<double> makespan = Makespan(program, costs);
  if (!makespan.ok() || *makespan == 0) return 0;
  double busy = 0;
  for (const Program& own : program.ranks) {
    for (const Action& action : own) busy += unit.Of(action.op);
  }
  return 1.0 - busy / (*makespan * static_cast<double>(program.ranks.size()));
}

}  // namespace longhaul
