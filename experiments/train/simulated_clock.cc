#include "experiments/train/simulated_clock.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "compressors/numbers/noise.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/clock_spans.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/traffic.h"
#include "netem/topology/topology_file.h"
#include "plugin/core/packet.h"
#include "pp_group/rank_span.h"

namespace longhaul {

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
  if (absl::Status s = CheckLinks(links); !s.ok()) return s;
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
  if (absl::Status s = CheckControl(spec); !s.ok()) return s;
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  if (!program.ok()) return program.status();
  std::unique_ptr<SimulatedClock> clock(new SimulatedClock(spec));
  clock->program_ = *std::move(program);
  clock->links_ = std::move(links);
  const RunSpec::Compute& machine = *spec.compute;
  const std::vector<PipelineCosts::Stage> seconds = StageSeconds(spec);
  const size_t boundaries = seconds.size() - 1;
  for (size_t g = 0; g < static_cast<size_t>(spec.outer.groups); ++g) {
    const double speed = machine.group_speed.empty() ? 1 : machine.group_speed[g];
    PipelineCosts costs{.stages = seconds,
                        .ranks = std::vector<PipelineCosts::Rank>(clock->program_.ranks.size()),
                        .activations = std::vector<PipelineCosts::Wire>(boundaries),
                        .gradients = std::vector<PipelineCosts::Wire>(boundaries)};
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
  if (absl::Status s = clock->PlanBytes(spec); !s.ok()) return s;
  clock->Connect();
  if (spec.outer.on_group_loss == "continue") {
    clock->elastic_.emplace(spec, clock->program_, clock->nominal_);
    clock->largest_stage_ = LargestStage(spec);
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
  clock_ = std::make_unique<TrainingClock>(program_, costs_);
}

absl::Status SimulatedClock::PlanBytes(const RunSpec& spec) {
  const auto crossings = PlanCrossings(spec);
  if (!crossings.ok()) return crossings.status();
  // Every group's are alike.
  std::map<std::tuple<std::string, uint64_t, uint64_t, std::vector<uint64_t>, int64_t>,
           std::optional<double>>
      known;
  for (const PlannedCrossing& c : *crossings) {
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

void SimulatedClock::Send(const OuterExchange& e, std::vector<TraceSpan>* trace) {
  const auto begun = plan_.BegunAfter(step_);
  const bool last = plan_.gradients() || begun.back() == e;
  for (const std::vector<int>& meeting : MeetingsOf(e)) {
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
          Wire wire = WireOf(src, dst, bytes);
          if (elastic_) wire = elastic_->OnPath(src, dst, wire);
          wire.both_ways =
              std::abs(clock_->Seconds(from, rank) - clock_->Seconds(to, rank)) <= wire.delay_s;
          const Sent sent = clock_->Send(
              static_cast<int>(e.fragment),
              {.stage = stages.front(), .from_group = from, .to_group = to, .wire = wire});
          if (trace == nullptr) continue;
          trace->push_back({.rank = src,
                            .lane = TraceLane::kLink,
                            .what = fmt::format("exchange, stage {}", fmt::join(stages, " and ")),
                            .begin_ns = SpanNanoseconds(sent.begun),
                            .end_ns = SpanNanoseconds(sent.arrived),
                            .exchange = e.begun,
                            .fragment = e.fragment,
                            .peer = dst,
                            .bytes = std::llround(bytes),
                            .left_ns = SpanNanoseconds(sent.left)});
        }
      }
    }
  }
}

void SimulatedClock::Receive(const OuterExchange& e, std::vector<TraceSpan>* trace) {
  const std::vector<double> before = Clocks();
  clock_->Receive(static_cast<int>(e.fragment));
  const std::vector<double> there = Clocks();
  if (!plan_.gradients() && ranks_ > 1) {
    for (int g = 0; g < static_cast<int>(groups_); ++g) {
      if (clock_->Away(g)) continue;
      std::vector<double> tell_s = tell_s_[static_cast<size_t>(g)];
      if (elastic_) elastic_->Hinder(g, &tell_s);
      clock_->TellAll(g, tell_s);
    }
  }
  if (trace == nullptr) return;
  AddSince(before, there, TraceLane::kExchangeWait, "receive", e, trace);
  AddSince(there, Clocks(), TraceLane::kExchangeWait, kNormsOfStages, e, trace);
}

std::vector<double> SimulatedClock::Clocks() const {
  std::vector<double> clocks;
  for (int g = 0; g < static_cast<int>(groups_); ++g) {
    for (int r = 0; r < static_cast<int>(ranks_); ++r) clocks.push_back(clock_->Seconds(g, r));
  }
  return clocks;
}

std::vector<std::vector<int>> SimulatedClock::MeetingsOf(const OuterExchange& e) const {
  if (!elastic_) return plan_.Meetings(e);
  return {members_};
}

// Over the slowest of the paths that its ranks fetch over.
double SimulatedClock::FetchSeconds(int64_t group) const {
  BoundaryLink slowest = LinkOf(members_.front() * ranks_, group * ranks_);
  for (const int64_t m : members_) {
    for (int64_t r = 0; r < ranks_; ++r) {
      const BoundaryLink path = LinkOf(m * ranks_ + r, group * ranks_ + r);
      slowest.rate_bit_per_s = std::min(slowest.rate_bit_per_s, path.rate_bit_per_s);
      slowest.one_way_delay_s = std::max(slowest.one_way_delay_s, path.one_way_delay_s);
    }
  }
  return longhaul::FetchSeconds(largest_stage_, static_cast<int64_t>(members_.size()), slowest);
}

absl::Status SimulatedClock::MeetMembers() {
  absl::StatusOr<std::vector<int>> members = elastic_->Meet(clock_.get());
  if (members.ok()) members_ = *std::move(members);
  return members.status();
}

absl::Status SimulatedClock::Step(std::vector<TraceSpan>* trace) {
  ++step_;
  costs_ = nominal_;
  if (elastic_) elastic_->BeforeStep(step_, &costs_, clock_.get());
  const std::vector<double> begun = Clocks();
  if (absl::Status s = clock_->Actions(); !s.ok()) return s;
  if (trace != nullptr) AddPipelines(*clock_, begun, messages_, trace);
  const bool meets = groups_ > 1 && plan_.meets();
  if (meets && plan_.gradients()) {
    const OuterExchange gradients{.begun = step_, .applied = step_, .fragment = 0};
    Send(gradients, trace);
    Receive(gradients, trace);
  }
  const std::vector<double> computed = Clocks();
  clock_->Update();
  if (trace != nullptr) {
    AddSince(computed, Clocks(), TraceLane::kCompute, "update", {0, 0, 0}, trace);
  }
  const bool gathers = elastic_ && plan_.EndsRound(step_);
  if (gathers) {
    if (absl::Status s = MeetMembers(); !s.ok()) return s;
  }
  for (int g = 0; g < static_cast<int>(groups_); ++g) {
    did_[static_cast<size_t>(g)] = !clock_->Away(g);
  }
  if (meets && plan_.exchanges()) {
    // As pp_group/outer/outer_round.h orders them: what is due is there before the next is begun.
    for (const OuterExchange& e : plan_.AppliedAfter(step_)) {
      if (e.begun < step_) Receive(e, trace);
    }
    for (const OuterExchange& e : plan_.BegunAfter(step_)) {
      Send(e, trace);
      if (e.applied == step_) Receive(e, trace);
    }
  }
  if (trace != nullptr) {
    AddSince(begun, Clocks(), TraceLane::kStep, StepSpanName(step_), {0, 0, 0}, trace);
  }
  told_.clear();
  if (gathers) {
    elastic_->EndRound([this](int64_t group) { return FetchSeconds(group); }, clock_.get());
  }
  return absl::OkStatus();
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
  const int rank = program_.rank_of_stage[static_cast<size_t>(stage)];
  return std::round(clock_->Seconds(group, rank) * 1e6) / 1e6;
}

}  // namespace longhaul
