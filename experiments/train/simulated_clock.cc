#include "experiments/train/simulated_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/numbers/noise.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/traffic.h"
#include "netem/topology/topology_file.h"
#include "plugin/core/packet.h"
#include "pp_group/rank_span.h"

namespace longhaul {
namespace {

int64_t SpanNanoseconds(double s) { return std::llround(s * 1e9); }
double InMicroseconds(double s) { return std::round(s * 1e6) / 1e6; }

}  // namespace

SimulatedClock::SimulatedClock(const RunSpec& spec)
    : plan_(OuterPlanOf(spec)),
      ranks_(spec.ranks()),
      groups_(spec.outer.groups),
      restarts_(spec.net.slow_start_after_idle),
      seed_(static_cast<uint64_t>(spec.seed)),
      all_meet_(WholeRounds(spec.outer)),
      nodes_(static_cast<size_t>(spec.workers())) {
  std::iota(nodes_.begin(), nodes_.end(), 0);
}

SimulatedClock::SimulatedClock(const SimulatedClock& other, std::vector<int> nodes)
    : plan_(other.plan_),
      program_(other.program_),
      ranks_(other.ranks_),
      groups_(other.groups_),
      restarts_(other.restarts_),
      seed_(other.seed_),
      all_meet_(other.all_meet_),
      nodes_(std::move(nodes)),
      links_(other.links_),
      nominal_(other.nominal_),
      messages_(other.messages_),
      exchange_bytes_(other.exchange_bytes_) {
  Connect();
}

std::unique_ptr<SimulatedClock> SimulatedClock::Placed(const std::vector<int>& nodes) const {
  return std::unique_ptr<SimulatedClock>(new SimulatedClock(*this, nodes));
}

absl::StatusOr<std::unique_ptr<SimulatedClock>> SimulatedClock::Of(const RunSpec& spec) {
  const absl::StatusOr<Topology> links =
      MeshNamed(spec.net.profile, static_cast<int>(spec.workers()));
  if (!links.ok()) {
    return absl::Status(links.status().code(),
                        fmt::format("net.profile: {}", std::string(links.status().message())));
  }
  return Of(spec, *links);
}

absl::StatusOr<std::unique_ptr<SimulatedClock>> SimulatedClock::Of(const RunSpec& spec,
                                                                   const Topology& links,
                                                                   Losses losses) {
  RETURN_IF_ERROR(CheckLinks(links));
  std::map<std::pair<int64_t, int64_t>, BoundaryLink> known;
  for (const PathSpec& path : links.paths) {
    BoundaryLink& link = known[{path.from, path.to}] = longhaul::LinkOf(links, path, spec);
    if (losses == Losses::kNone) link.loss = {};
  }
  return Of(spec, [known = std::move(known)](int64_t from, int64_t to) {
    return known.at({from, to});
  });
}

absl::StatusOr<std::unique_ptr<SimulatedClock>> SimulatedClock::Of(const RunSpec& spec,
                                                                   Links links) {
  RETURN_IF_ERROR(CheckControl(spec));
  ASSIGN_OR_RETURN(PipelineProgram program, PipelineOf(spec));
  std::unique_ptr<SimulatedClock> clock(new SimulatedClock(spec));
  clock->program_ = std::move(program);
  clock->links_ = std::move(links);
  const RunSpec::Compute& machine = *spec.compute;
  for (size_t g = 0; g < static_cast<size_t>(spec.outer.groups); ++g) {
    const double speed = machine.group_speed.empty() ? 1 : machine.group_speed[g];
    PipelineCosts costs = PipelineCosts::Of(clock->program_, {});
    costs.stages = StageSeconds(spec);
    for (PipelineCosts::Stage& stage : costs.stages) {
      for (double* s : {&stage.forward_s, &stage.backward_s, &stage.input_gradient_s,
                        &stage.weight_gradient_s}) {
        *s /= speed;
      }
    }
    for (const int rank : clock->program_.rank_of_stage) {
      costs.ranks[static_cast<size_t>(rank)].step_s += machine.optimizer_s / speed;
    }
    clock->nominal_.push_back(std::move(costs));
  }
  RETURN_IF_ERROR(clock->PlanBytes(spec));
  clock->Connect();
  if (spec.outer.on_group_loss == "continue") {
    clock->elastic_.emplace(Elastic{
        // Who is late ends the run: the training knows of nobody that is.
        .timeline = GroupTimeline(ScriptOf(spec), RoundBoundsOf(spec),
                                  {.restart_s = spec.compute->restart_s,
                                   .round_deadline_s = std::numeric_limits<double>::infinity(),
                                   .peer_deadline_s = spec.net.peer_deadline_s}),
        .slowdowns = Slowdowns(ScriptOf(spec), spec.schedule.stages, spec.model.tied_head,
                               [&](int64_t group, const std::vector<Slowdown>& with) {
                                 PipelineCosts own = clock->nominal_[static_cast<size_t>(group)];
                                 for (const Slowdown& one : with) one.On(&own);
                                 // The schedule is proven.
                                 return StepPeriod(clock->program_, own).value_or(0);
                               }),
        .round_deadline_s = spec.outer.round_deadline_s,
        .largest_stage = LargestStage(spec)});
  }
  return clock;
}

BoundaryLink SimulatedClock::LinkOf(int64_t from_rank, int64_t to_rank) const {
  return links_(nodes_[static_cast<size_t>(from_rank)], nodes_[static_cast<size_t>(to_rank)]);
}

void SimulatedClock::Connect() {
  for (int64_t g = 0; g < groups_ && groups_ > 1; ++g) {
    std::vector<double>& tell_s = tell_s_.emplace_back(ranks_ * ranks_, 0);
    for (int64_t from = 0; from < ranks_; ++from) {
      for (int64_t to = 0; to < ranks_; ++to) {
        if (from == to) continue;
        tell_s[static_cast<size_t>(from * ranks_ + to)] =
            LinkOf(g * ranks_ + from, g * ranks_ + to).one_way_delay_s;
      }
    }
  }
  for (const auto& [message, bytes] : std::exchange(messages_, {})) {
    const auto& [direction, from_rank, to_rank] = message;
    SetMessageBytes(direction, from_rank, to_rank, bytes);
  }
  costs_ = nominal_;
  did_.assign(nominal_.size(), false);
  clock_ = std::make_unique<ScheduleClock>(program_, costs_);
}

absl::Status SimulatedClock::PlanBytes(const RunSpec& spec) {
  ASSIGN_OR_RETURN(const auto crossings, PlanCrossings(spec));
  // Every group's are alike.
  std::map<std::tuple<std::string, uint64_t, uint64_t, std::vector<uint64_t>, int64_t>,
           std::optional<double>>
      known;
  for (const PlannedCrossing& c : crossings) {
    auto [at, fresh] = known.try_emplace(
        {c.codec, c.shape.rows, c.shape.cols, c.parts, c.first_visits}, std::nullopt);
    if (fresh) at->second = MessageBytes(c);
    if (!at->second) {
      return absl::InvalidArgumentError(fmt::format("codec '{}' takes no tensor of {} x {}",
                                                    c.codec, c.shape.rows, c.shape.cols));
    }
    if (c.direction != Direction::kOuter) {
      messages_[{c.direction, c.src_rank, c.dst_rank}] = *at->second;
      continue;
    }
    // Lengths go ahead of the frames, a message of their own.
    const double beside = 2 * static_cast<double>(kPacketHeaderBytes) +
                          static_cast<double>(c.parts.size() * sizeof(uint64_t));
    exchange_bytes_[{c.fragment, static_cast<int>(c.stage)}] = {beside, *at->second - beside};
  }
  return absl::OkStatus();
}

Wire SimulatedClock::WireOf(int64_t from_rank, int64_t to_rank, double bytes) const {
  BoundaryLink link = LinkOf(from_rank, to_rank);
  link.message_bytes = bytes;
  Wire wire = ColdWireOf(link);
  wire.restarts = restarts_;
  uint64_t key =
      FoldSeed({seed_, static_cast<uint64_t>(from_rank), static_cast<uint64_t>(to_rank)});
  // What a group that was started anew loses is drawn anew.
  const uint64_t lives = clock_ == nullptr
                             ? 0
                             : clock_->Returns(static_cast<int>(from_rank / ranks_)) +
                                   clock_->Returns(static_cast<int>(to_rank / ranks_));
  if (lives > 0) key = FoldSeed({key, lives});
  wire.loss.key = key;
  wire.loss_back = LinkOf(to_rank, from_rank).loss;
  wire.loss_back.key = FoldSeed({key, 1});
  return wire;
}

void SimulatedClock::SetMessageBytes(Direction direction, int64_t from_rank, int64_t to_rank,
                                     double bytes) {
  messages_[{direction, from_rank, to_rank}] = bytes;
  PipelineCosts& costs = nominal_[static_cast<size_t>(from_rank / ranks_)];
  const Wire wire = WireOf(from_rank, to_rank, bytes);
  const int64_t from = from_rank % ranks_, to = to_rank % ranks_;
  if (direction == Direction::kTied) {
    if (!costs.tied) costs.tied.emplace();
    (from == program_.rank_of_stage.front() ? costs.tied->to_last : costs.tied->to_first) = wire;
    return;
  }
  const bool forward = direction == Direction::kForward;
  for (size_t b = 0; b + 1 < program_.rank_of_stage.size(); ++b) {
    const int64_t before = program_.rank_of_stage[b], after = program_.rank_of_stage[b + 1];
    if ((forward ? before : after) != from || (forward ? after : before) != to) continue;
    (forward ? costs.activations : costs.gradients)[b] = wire;
  }
}

void SimulatedClock::SetExchangeBytes(int group, int stage, double frame_bytes) {
  told_[{group, stage}] = frame_bytes;
}

void SimulatedClock::Send(const OuterExchange& e) {
  const auto begun = plan_.BegunAfter(step_);
  const bool last = plan_.gradients() || begun.back() == e;
  const auto meetings =
      elastic_ ? std::vector<std::vector<int>>{elastic_->members} : plan_.Meetings(e);
  for (const std::vector<int>& meeting : meetings) {
    for (int rank = 0; rank < program_.num_ranks(); ++rank) {
      // What a rank's stages send to the same peer follows each other at once: one message.
      std::vector<int> stages;
      for (const int stage : program_.StagesOf(rank)) {
        if (exchange_bytes_.contains({e.fragment, stage})) stages.push_back(stage);
      }
      if (stages.empty()) continue;  // it has nothing of the fragment
      for (const int from : meeting) {
        double bytes = 0;
        for (const int stage : stages) {
          const ExchangeBytes& planned = exchange_bytes_.at({e.fragment, stage});
          const auto told = told_.find({from, stage});
          const bool knows = last && told != told_.end() && meeting.size() > 1;
          bytes += planned.beside + (knows ? told->second / static_cast<double>(meeting.size() - 1)
                                           : planned.frames);
        }
        for (const int to : meeting) {
          if (from == to) continue;
          const auto src = static_cast<int>(from * ranks_ + rank);
          const auto dst = static_cast<int>(to * ranks_ + rank);
          Wire wire = OnPath(src, dst, WireOf(src, dst, bytes));
          wire.both_ways = std::abs(clock_->free_s()[src] - clock_->free_s()[dst]) <= wire.delay_s;
          const Sent sent = clock_->Send(static_cast<int>(e.fragment), src, dst, wire);
          if (trace_ == nullptr) continue;
          AddSpan({.rank = src,
                   .lane = TraceLane::kLink,
                   .what = fmt::format("exchange, stage {}", fmt::join(stages, " and ")),
                   .exchange = e.begun,
                   .fragment = e.fragment,
                   .peer = dst,
                   .bytes = std::llround(bytes),
                   .left_ns = SpanNanoseconds(sent.left)},
                  sent.begun, sent.arrived);
        }
      }
    }
  }
}

void SimulatedClock::Receive(const OuterExchange& e) {
  const std::vector<double> before_s = clock_->free_s();
  clock_->Receive(static_cast<int>(e.fragment));
  AddSince(before_s, TraceLane::kExchangeWait, "receive", e);
  if (plan_.gradients() || ranks_ == 1) return;
  const std::vector<double> there_s = clock_->free_s();
  for (int g = 0; g < groups(); ++g) {
    if (clock_->Away(g)) continue;
    std::vector<double> tell_s = tell_s_[static_cast<size_t>(g)];
    if (elastic_) {
      for (const Slowdown& one : elastic_->slowdowns.InStep(g, step_)) {
        if (one.from < 0 || one.one_way_delay_s < 0) continue;
        tell_s[static_cast<size_t>(one.from * ranks_ + one.to)] = one.one_way_delay_s;
      }
    }
    clock_->TellAll(g, tell_s);
  }
  AddSince(there_s, TraceLane::kExchangeWait, kNormsOfStages, e);
}

absl::Status SimulatedClock::Step(std::vector<TraceSpan>* trace) {
  ++step_;
  trace_ = trace;
  costs_ = nominal_;
  if (elastic_) Strike(*elastic_);
  const std::vector<double> begun_s = clock_->free_s();
  RETURN_IF_ERROR(clock_->Actions());
  if (trace != nullptr) AddPipelines(begun_s);
  const bool meets = groups_ > 1 && plan_.meets();
  if (meets && plan_.gradients()) {
    const OuterExchange gradients{.begun = step_, .applied = step_, .fragment = 0};
    Send(gradients);
    Receive(gradients);
  }
  const std::vector<double> computed_s = clock_->free_s();
  clock_->Update();
  AddSince(computed_s, TraceLane::kCompute, "update");
  const bool gathers = elastic_ && plan_.EndsRound(step_);
  if (gathers) {
    RETURN_IF_ERROR(Meet(*elastic_));
  }
  for (int g = 0; g < groups(); ++g) did_[static_cast<size_t>(g)] = !clock_->Away(g);
  if (meets && plan_.exchanges()) {
    // As pp_group/outer/outer_round.h orders them: what is due is there before the next is begun.
    for (const OuterExchange& e : plan_.AppliedAfter(step_)) {
      if (e.begun < step_) Receive(e);
    }
    for (const OuterExchange& e : plan_.BegunAfter(step_)) {
      Send(e);
      if (e.applied == step_) Receive(e);
    }
  }
  AddSince(begun_s, TraceLane::kStep, StepSpanName(step_));
  told_.clear();
  if (gathers) EndRound(*elastic_);
  return absl::OkStatus();
}

// What the script does to the groups before they begin this step.
void SimulatedClock::Strike(Elastic& elastic) {
  const int64_t round = plan_.RoundOf(step_);
  if (plan_.FirstStepOf(round) == step_) elastic.timeline.BeginRound(round);
  // What a link carries that is down, from its sender's clock on; ranks count from `first`.
  const auto hold = [this](const Slowdowns::Spell& spell, int64_t first) {
    if (spell.down_s == 0 || spell.first != step_) return;
    const auto from = static_cast<int>(first + spell.slowdown.from),
               to = static_cast<int>(first + spell.slowdown.to);
    clock_->Hold(from, to, clock_->free_s()[from] + spell.down_s);
  };
  for (int g = 0; g < groups(); ++g) {
    const int64_t first = g * ranks_;
    if (!elastic.timeline.Trains(g)) clock_->Leave(g);
    if (clock_->Away(g)) continue;
    if (const GroupTimeline::RoundFaults* faults = elastic.timeline.FaultsOf(g)) {
      if (faults->EndsAt() == step_) {
        elastic.timeline.Ends(g, clock_->Latest(g));
        clock_->Leave(g);
        continue;
      }
      for (const GroupTimeline::RoundFaults::Stop& stop : faults->stops) {
        if (stop.step != step_) continue;
        for (int64_t r = 0; r < ranks_; ++r) {
          if (stop.stage >= 0 && stop.stage != r) continue;
          const auto rank = static_cast<int>(first + r);
          clock_->WaitUntil(rank, clock_->free_s()[rank] + stop.seconds);
        }
      }
    }
    for (const Slowdowns::Spell& spell : elastic.slowdowns.Inside(g)) hold(spell, first);
    for (const Slowdown& one : elastic.slowdowns.InStep(g, step_)) {
      one.On(&costs_[static_cast<size_t>(g)]);
    }
  }
  for (const Slowdowns::Spell& spell : elastic.slowdowns.between()) hold(spell, 0);
}

// A path between two groups, with what slows it in this step.
Wire SimulatedClock::OnPath(int64_t from_rank, int64_t to_rank, Wire wire) const {
  if (!elastic_) return wire;
  for (const Slowdowns::Spell& s : elastic_->slowdowns.between()) {
    const bool holds = s.first <= step_ && s.last >= step_;
    if (!holds || s.slowdown.from != from_rank || s.slowdown.to != to_rank) continue;
    wire = s.slowdown.On(wire);
  }
  return wire;
}

// Behind the steps of a round: the members of its outer step, who are all there.
absl::Status SimulatedClock::Meet(Elastic& elastic) {
  int first = -1, last = -1;  // groups at the outer step
  for (int g = 0; g < groups(); ++g) {
    if (clock_->Away(g)) continue;
    const double now_s = clock_->Latest(g);
    const GroupTimeline::RoundFaults* faults = elastic.timeline.FaultsOf(g);
    if (faults != nullptr && faults->in_outer) {
      elastic.timeline.Ends(g, now_s);
      clock_->Leave(g);
      continue;
    }
    elastic.timeline.Arrives(g, now_s);
    if (first < 0 || now_s < clock_->Latest(first)) first = g;
    if (last < 0 || now_s > clock_->Latest(last)) last = g;
  }
  const int64_t round = plan_.RoundOf(step_);
  const GroupTimeline::Meeting meeting = elastic.timeline.Meet();
  if (meeting.members.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("round {} has no members: nobody holds the weights", round));
  }
  const double late_s = clock_->Latest(last) - clock_->Latest(first);
  if (late_s > elastic.round_deadline_s) {
    return absl::FailedPreconditionError(fmt::format(
        "round {}: on the simulated clock group {} is at the outer step {:.3f} s behind group {}, "
        "and outer.round_deadline_s = {:g} would leave it out, which this training does not do; "
        "want a longer one",
        round, last, late_s, first, elastic.round_deadline_s));
  }
  elastic.members.assign(meeting.members.begin(), meeting.members.end());
  for (const int64_t m : elastic.members) {
    for (int64_t r = 0; r < ranks_; ++r) {
      clock_->WaitUntil(static_cast<int>(m * ranks_ + r), meeting.begins_s);
    }
  }
  return absl::OkStatus();
}

// When the members have exchanged.
void SimulatedClock::EndRound(Elastic& elastic) {
  double end_s = 0;
  for (const int m : elastic.members) end_s = std::max(end_s, clock_->Latest(m));
  elastic.timeline.EndRound(end_s, [&](int64_t group) { return FetchSeconds(elastic, group); });
  for (int g = 0; g < groups(); ++g) {
    if (elastic.timeline.Trains(g) && clock_->Away(g)) {
      clock_->Return(g, elastic.timeline.ready_s(g));
    }
  }
}

// Over the slowest of the paths that its ranks fetch over.
double SimulatedClock::FetchSeconds(const Elastic& elastic, int64_t group) const {
  const std::vector<int>& members = elastic.members;
  BoundaryLink slowest = LinkOf(members.front() * ranks_, group * ranks_);
  for (const int64_t m : members) {
    for (int64_t r = 0; r < ranks_; ++r) {
      const BoundaryLink path = LinkOf(m * ranks_ + r, group * ranks_ + r);
      slowest.rate_bit_per_s = std::min(slowest.rate_bit_per_s, path.rate_bit_per_s);
      slowest.one_way_delay_s = std::max(slowest.one_way_delay_s, path.one_way_delay_s);
    }
  }
  return longhaul::FetchSeconds(elastic.largest_stage, static_cast<int64_t>(members.size()),
                                slowest);
}

void SimulatedClock::AddSpan(TraceSpan span, double begin_s, double end_s) {
  span.begin_ns = SpanNanoseconds(begin_s);
  span.end_ns = SpanNanoseconds(end_s);
  trace_->push_back(std::move(span));
}

// What ranks did since they were free then, where that was anything.
void SimulatedClock::AddSince(const std::vector<double>& before_s, TraceLane lane,
                              const std::string& what, const OuterExchange& e) {
  for (size_t rank = 0; trace_ != nullptr && rank < before_s.size(); ++rank) {
    const double now_s = clock_->free_s()[rank];
    if (now_s <= before_s[rank]) continue;
    AddSpan({.rank = static_cast<int>(rank),
             .lane = lane,
             .what = what,
             .exchange = e.begun,
             .fragment = e.fragment},
            before_s[rank], now_s);
  }
}

// Actions, waits and messages of all groups, whose ranks were free at `begun_s`.
void SimulatedClock::AddPipelines(const std::vector<double>& begun_s) {
  for (int g = 0; g < groups(); ++g) {
    for (int64_t rank = g * ranks_; rank < (g + 1) * ranks_; ++rank) {
      const auto add = [&](TraceLane lane, const std::string& what, double begin_s, double end_s) {
        if (end_s <= begin_s) return;
        AddSpan({.rank = static_cast<int>(rank), .lane = lane, .what = what}, begin_s, end_s);
      };
      double free_s = begun_s[rank];
      for (const ScheduleClock::Done& done : clock_->done()[rank]) {
        add(TraceLane::kWait, "for " + ToString(done.action), free_s, done.begin_s);
        add(TraceLane::kCompute, ToString(done.action), done.begin_s, done.end_s);
        free_s = done.end_s;
      }
      add(TraceLane::kWait, "for the tied head", free_s, clock_->free_s()[rank]);
    }
    for (const ScheduleClock::Carried& c : clock_->carried(g)) {
      const bool gradient = c.message && c.message->kind == MessageKind::kGradient;
      const auto direction = gradient ? Direction::kBackward : Direction::kForward;
      const auto size = c.message ? messages_.find({direction, c.from, c.to}) : messages_.end();
      AddSpan({.rank = c.from,
               .lane = TraceLane::kLink,
               .what = !c.message ? std::string("tied head")
                                  : fmt::format("{} {}", gradient ? "gradient" : "activation",
                                                c.message->microbatch),
               .peer = c.to,
               .bytes = size == messages_.end() ? 0 : std::llround(size->second),
               .left_ns = SpanNanoseconds(c.times.left)},
              c.times.begun, c.times.arrived);
    }
  }
}

double SimulatedClock::LeastStepSeconds() const {
  double step_s = 0, exchange_s = 0;
  for (const PipelineCosts& costs : nominal_) {
    step_s = std::max(step_s, LeastStepPeriod(program_, costs));
  }
  if (groups_ == 1 || !plan_.meets() || !all_meet_) return step_s;
  for (const auto& [what, bytes] : exchange_bytes_) {
    const int64_t rank = program_.rank_of_stage[static_cast<size_t>(what.second)];
    for (int64_t a = 0; a < groups_; ++a) {
      for (int64_t b = a + 1; b < groups_; ++b) {
        const double sent = bytes.beside + bytes.frames;
        const auto there = WireOf(a * ranks_ + rank, b * ranks_ + rank, sent);
        const auto back = WireOf(b * ranks_ + rank, a * ranks_ + rank, sent);
        // Two groups wait for each other in turn, so both ways count by half.
        exchange_s =
            std::max(exchange_s, (there.busy_s + there.delay_s + back.busy_s + back.delay_s) / 2);
      }
    }
  }
  const auto h = static_cast<double>(plan_.round_steps());
  return std::max(step_s, ((h - 1) * step_s + exchange_s) / h);
}

double SimulatedClock::Seconds(int group, int stage) const {
  const int64_t rank = group * ranks_ + program_.rank_of_stage[static_cast<size_t>(stage)];
  return InMicroseconds(clock_->free_s()[static_cast<size_t>(rank)]);
}

double SimulatedClock::Latest() const {
  return InMicroseconds(*std::max_element(clock_->free_s().begin(), clock_->free_s().end()));
}

}  // namespace longhaul
