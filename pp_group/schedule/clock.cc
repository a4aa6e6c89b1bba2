#include "pp_group/schedule/clock.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace longhaul {
namespace {

constexpr double kNotYet = -1;

double SerialSlots(const PipelineProgram& program, const PipelineCosts& costs) {
  const size_t stages = costs.stages.size();
  std::vector<double> of_ranks(program.ranks.size(), 0);
  for (size_t s = 0; s < stages; ++s) {
    of_ranks[program.rank_of_stage[s]] += costs.stages[s].forward_s + costs.stages[s].backward_s;
  }
  const double compute_s = *std::max_element(of_ranks.begin(), of_ranks.end());
  double transfer_s = 0, rtt_s = 0;
  for (size_t b = 0; b + 1 < stages; ++b) {
    const Wire &there = costs.activations[b], &back = costs.gradients[b];
    transfer_s = std::max(transfer_s, there.busy_s + back.busy_s);
    rtt_s = std::max(rtt_s, there.delay_s + back.delay_s);
  }
  const auto ranks = static_cast<double>(of_ranks.size());
  const double slots = program.microbatches + (program.flushes() ? ranks - 1 : 0),
               chunks = static_cast<double>(stages) / ranks;
  return slots * (compute_s + chunks * (transfer_s + rtt_s) * (1 + 0.05 * std::log2(ranks)));
}

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

PipelineCosts PipelineCosts::Of(const PipelineProgram& program, const Stage& stage,
                                const Wire& wire) {
  const size_t stages = program.rank_of_stage.size();
  return {.stages = std::vector<Stage>(stages, stage),
          .ranks = std::vector<Rank>(program.ranks.size()),
          .activations = std::vector<Wire>(stages - 1, wire),
          .gradients = std::vector<Wire>(stages - 1, wire)};
}

ScheduleClock::ScheduleClock(const PipelineProgram& program, std::span<const PipelineCosts> groups,
                             LinkPolicy links)
    : program_(program),
      costs_(groups),
      links_(links),
      ranks_(program.num_ranks()),
      groups_(groups.size()),
      free_s_(groups.size() * program.ranks.size(), 0),
      encoder_free_s_(free_s_.size(), 0),
      done_(free_s_.size()),
      // A stage's neighbours are no more micro-batches ahead of it than the first one is of the last.
      slots_(program.microbatches +
             (program.flushes()
                  ? 0
                  : 1 + *std::max_element(program.ahead.begin(), program.ahead.end()))) {}

absl::Status ScheduleClock::Step() {
  RETURN_IF_ERROR(Actions());
  Update();
  return absl::OkStatus();
}

absl::Status ScheduleClock::Actions() {
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    if (Away(g)) continue;
    RETURN_IF_ERROR(GroupActions(g));
  }
  return absl::OkStatus();
}

absl::Status ScheduleClock::GroupActions(int group) {
  group_ = group;
  const int first_rank = group * ranks_;
  const size_t messages = static_cast<size_t>(program_.num_stages()) * static_cast<size_t>(slots_);
  Group& own_group = groups_[static_cast<size_t>(group)];
  const bool filled = !program_.flushes() && own_group.steps > 0;
  for (int kind : {0, 1}) {
    if (filled) {
      arrived_[kind].swap(own_group.arrived[kind]);
    } else {
      arrived_[kind].assign(messages, Arrival());
    }
  }
  own_group.carried.clear();
  std::vector<Program> ahead;
  for (int r = 0; r < ranks_ && !program_.flushes(); ++r) ahead.push_back(StepOf(r));
  const std::vector<Program>& programs = program_.flushes() ? program_.ranks : ahead;
  for (int r = 0; r < ranks_; ++r) done_[static_cast<size_t>(first_rank + r)].clear();
  std::vector<size_t> next(program_.ranks.size(), 0);
  // What ends first runs first: two senders may share a receiver's wire.
  while (true) {
    int first = -1;
    double first_end = 0;
    for (int r = 0; r < ranks_; ++r) {
      const Program& own = programs[r];
      const double end = next[r] < own.size() ? EndOf(first_rank + r, own[next[r]]) : kNotYet;
      if (end == kNotYet || (first >= 0 && end >= first_end)) continue;
      first = r;
      first_end = end;
    }
    if (first < 0) break;
    Run(first_rank + first, programs[first][next[first]++], first_end);
  }
  for (int r = 0; r < ranks_; ++r) {
    const Program& own = programs[r];
    if (next[r] < own.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule: stuck before ", ToString(own[next[r]])));
    }
  }
  if (costs_[group].tied) AddTied();
  ++own_group.steps;
  for (int kind : {0, 1}) {
    if (!program_.flushes()) own_group.arrived[kind].swap(arrived_[kind]);
  }
  return absl::OkStatus();
}

// Of a pipeline without a flush.
Program ScheduleClock::StepOf(int rank) const {
  const int stage = program_.StagesOf(rank).front(), m = program_.microbatches;
  const int ahead = program_.ahead[static_cast<size_t>(stage)];
  Program step;
  const bool filled = groups_[static_cast<size_t>(group_)].steps > 0;
  for (int forward = filled ? ahead : 0; forward < ahead; ++forward) {
    step.push_back({stage, Op::kForward, forward});
  }
  for (int backward = 0; backward < m; ++backward) {
    step.push_back({stage, Op::kForward, backward + ahead});
    step.push_back({stage, Op::kBackward, backward});
  }
  return step;
}

void ScheduleClock::Update() {
  for (size_t rank = 0; rank < free_s_.size(); ++rank) {
    const auto group = static_cast<int>(rank) / ranks_, r = static_cast<int>(rank) % ranks_;
    if (!Away(group)) free_s_[rank] += costs_[group].ranks[r].step_s;
  }
}

void ScheduleClock::WaitUntil(int rank, double s) { free_s_[rank] = std::max(free_s_[rank], s); }

double ScheduleClock::Latest(int group) const {
  const auto first = free_s_.begin() + group * ranks_;
  return std::max(0.0, *std::max_element(first, first + ranks_));
}

void ScheduleClock::Return(int group, double s) {
  Group& back = groups_[static_cast<size_t>(group)];
  back.away = false;
  ++back.returns;
  for (int rank = group * ranks_; rank < (group + 1) * ranks_; ++rank) {
    free_s_[rank] = encoder_free_s_[rank] = s;
  }
  std::erase_if(connections_, [&](const auto& used) {
    const auto [from, to] = used.first;
    return from / ranks_ == group || to / ranks_ == group;
  });
}

Sent ScheduleClock::Send(int exchange, int from, int to, const Wire& wire) {
  const Sent sent = Take(wire, free_s_[from], &connections_[{from, to}]);
  std::vector<Waits>& waits = under_way_[exchange];
  waits.push_back({from, sent.left});
  waits.push_back({to, sent.arrived});
  return sent;
}

void ScheduleClock::Receive(int exchange) {
  for (const Waits& w : std::exchange(under_way_[exchange], {})) WaitUntil(w.rank, w.until);
}

void ScheduleClock::TellAll(int group, const std::vector<double>& delays_s) {
  const int first = group * ranks_;
  const std::vector<double> told(free_s_.begin() + first, free_s_.begin() + first + ranks_);
  for (int from = 0; from < ranks_; ++from) {
    for (int to = 0; to < ranks_; ++to) {
      if (from == to) continue;
      WaitUntil(first + to, told[from] + delays_s[static_cast<size_t>(from * ranks_ + to)]);
    }
  }
}

void ScheduleClock::AddTied() {
  const PipelineCosts& costs = costs_[group_];
  const int first = group_ * ranks_ + program_.rank_of_stage.front(),
            last = group_ * ranks_ + program_.rank_of_stage.back();
  if (first == last) return;
  const auto carry = [this](const Wire& wire, int from, int to) {
    return Carry(wire, from, to, std::max(free_s_[from], encoder_free_s_[from]), std::nullopt);
  };
  const Sent there = carry(costs.tied->to_last, first, last);
  const Sent back = carry(costs.tied->to_first, last, first);
  free_s_[first] = std::max({free_s_[first], there.left, back.arrived});
  free_s_[last] = std::max({free_s_[last], back.left, there.arrived});
}

Sent ScheduleClock::Carry(const Wire& wire, int from, int to, double ready,
                          std::optional<Message> message) {
  const bool shared = links_ == LinkPolicy::kOneAReceiver;
  Connection& connection = connections_[{shared ? to : from, to}];
  Sent sent = Take(shared ? Wire{.busy_s = wire.busy_s + wire.delay_s} : wire, ready, &connection);
  if (!shared && connection.by_segments) Revise(from, to, connection);
  if (message) Arrive(*message, sent.arrived);
  groups_[static_cast<size_t>(group_)].carried.push_back({from, to, message, sent});
  return sent;
}

// What was sent before and is not there yet may come sooner for what follows it. Nobody has gone on with
// it: actions run in the order of their ends, and this message was made before that one was there.
void ScheduleClock::Revise(int from, int to, const Connection& connection) {
  std::vector<Carried>& carried = groups_[static_cast<size_t>(group_)].carried;
  const auto& messages = connection.by_segments->messages();
  auto before = messages.rbegin() + 1;  // the last one is new
  for (auto c = carried.rbegin(); c != carried.rend() && before != messages.rend(); ++c) {
    if (c->from != from || c->to != to) continue;
    c->times.arrived = before->arrived;
    if (c->message) Arrive(*c->message, before->arrived);
    ++before;
  }
}

// kNotYet: its input is still to be made.
double ScheduleClock::EndOf(int rank, const Action& action) {
  const PipelineCosts& costs = costs_[group_];
  double ready = 0;
  if (const std::optional<Message> input = InputOf(action, program_.num_stages())) {
    const Arrival& arrival = InputAt(*input);
    if (arrival.microbatch != Numbered(*input)) return kNotYet;
    ready = arrival.at;
    const int r = rank - group_ * ranks_;
    if (program_.rank_of_stage[input->from_stage] != r) ready += costs.ranks[r].decode_s;
  }
  return std::max(free_s_[rank], ready) + costs.stages[action.stage].Of(action.op);
}

void ScheduleClock::Run(int rank, const Action& action, double end) {
  free_s_[rank] = end;
  done_[rank].push_back({action, end - costs_[group_].stages[action.stage].Of(action.op), end});
  const std::optional<Message> output = OutputOf(action, program_.num_stages());
  if (output) SendOn(*output, rank, end);
}

void ScheduleClock::SendOn(const Message& message, int from, double made) {
  const PipelineCosts& costs = costs_[group_];
  const int to = group_ * ranks_ + program_.rank_of_stage[message.to_stage];
  if (to == from) {
    Arrive(message, made);
    return;
  }
  const auto& kind = message.kind == MessageKind::kActivation ? costs.activations : costs.gradients;
  encoder_free_s_[from] =
      std::max(encoder_free_s_[from], made) + costs.ranks[from - group_ * ranks_].encode_s;
  Carry(kind[message.boundary()], from, to, encoder_free_s_[from], message);
}

int64_t ScheduleClock::Numbered(const Message& m) const {
  const int64_t steps = program_.flushes() ? 0 : groups_[static_cast<size_t>(group_)].steps;
  return steps * program_.microbatches + m.microbatch;
}

ScheduleClock::Arrival& ScheduleClock::InputAt(const Message& m) {
  const auto stage = static_cast<size_t>(m.to_stage), slots = static_cast<size_t>(slots_);
  return arrived_[static_cast<int>(m.kind)]
                 [stage * slots + static_cast<size_t>(Numbered(m)) % slots];
}

void ScheduleClock::Arrive(const Message& message, double at) {
  Arrival& arrival = InputAt(message);
  if (Numbered(message) >= arrival.microbatch) arrival = {Numbered(message), at};
}

absl::StatusOr<double> Makespan(const PipelineProgram& program, const PipelineCosts& costs) {
  ScheduleClock clock(program, std::span(&costs, 1));
  RETURN_IF_ERROR(clock.Step());
  return clock.Latest(0);
}

absl::StatusOr<double> StepPeriod(const PipelineProgram& program, const PipelineCosts& costs,
                                  LinkPolicy links) {
  if (links == LinkPolicy::kSerialSlots) return SerialSlots(program, costs);
  // Without a flush all micro-batches under way come back at once where links are slow: periods of them.
  const int under_way = program.flushes() ? 1 : program.num_stages();
  const int fill = 4 * under_way, periods = 4 * under_way;
  ScheduleClock clock(program, std::span(&costs, 1), links);
  double filled = 0;
  for (int step = 0; step < fill + periods; ++step) {
    RETURN_IF_ERROR(clock.Step());
    if (step + 1 == fill) filled = clock.free_s().front();
  }
  return (clock.free_s().front() - filled) / periods;
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
    const Wire &there = costs.activations[s], &back = costs.gradients[s];
    wires[rank * ranks + next] += m * there.busy_s;
    wires[next * ranks + rank] += m * back.busy_s;
    through += there.busy_s + there.delay_s + back.busy_s + back.delay_s;
  }
  double least =
      program.flushes()
          ? through + costs.ranks[static_cast<size_t>(program.rank_of_stage.front())].step_s
          : 0;
  for (size_t r = 0; r < ranks; ++r) least = std::max(least, busy[r] + costs.ranks[r].step_s);
  return std::max(least, *std::max_element(wires.begin(), wires.end()));
}

double BubbleFraction(const PipelineProgram& program, double backward_units) {
  const PipelineCosts::Stage unit{
      .forward_s = 1, .backward_s = backward_units, .input_gradient_s = 1, .weight_gradient_s = 1};
  const PipelineCosts costs = PipelineCosts::Of(program, unit);
  const absl::StatusOr<double> makespan =
      program.flushes() ? Makespan(program, costs) : StepPeriod(program, costs);
  if (!makespan.ok() || *makespan == 0) return 0;
  double busy = 0;
  for (const Program& own : program.ranks) {
    for (const Action& action : own) busy += unit.Of(action.op);
  }
  return 1.0 - busy / (*makespan * static_cast<double>(program.ranks.size()));
}

}  // namespace longhaul
