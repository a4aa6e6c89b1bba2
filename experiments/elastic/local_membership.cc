#include "experiments/elastic/local_membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "experiments/elastic/own_faults.h"
#include "experiments/elastic/round_store.h"
#include "experiments/record/row_json.h"
#include "experiments/train/train_setup.h"

namespace longhaul {
namespace {

class LocalMembership final : public Membership {
 public:
  LocalMembership(const RunSpec& spec, std::vector<LocalTelemetry> ranks, EventSink& sink)
      : spec_(spec),
        bounds_(RoundBoundsOf(spec)),
        plan_(PlanRounds(ScriptOf(spec), bounds_)),
        drawn_(WithoutKillsOfAbsentGroups(ScriptOf(spec), plan_, bounds_)),
        ranks_(std::move(ranks)),
        sink_(sink) {}

  absl::Status BeforeStep(Trainer& trainer, int64_t step) override;
  absl::StatusOr<Meeting> Meet(int64_t step) override;
  absl::StatusOr<bool> Commit(const absl::Status& exchanged) override;
  absl::Status AfterRound(Trainer& trainer, RoundRow* round) override;
  const std::vector<LocalTelemetry>& ranks() const override { return ranks_; }
  bool TellsOf(const std::vector<int>&) const override { return true; }

 private:
  const RoundPlan* PlanOf(int64_t step) const;
  bool There(int64_t group) const;
  void Strike(Trainer& trainer, const Fault& fault, int64_t step);
  void Lose(Trainer& trainer, int64_t group);
  // Before the first step of this process: groups that the script has not brought yet or has taken
  // away are not there, be it from the run's begin or from a checkpoint's step on.
  void LoseWhoIsNotThere(Trainer& trainer, int64_t step);
  absl::Status Add(Trainer& trainer, std::vector<LocalRank> ranks, const RoundPlan& plan) const;

  const RunSpec& spec_;
  const RoundBounds bounds_;
  const std::vector<RoundPlan> plan_;
  const std::vector<Fault> drawn_;
  std::vector<LocalTelemetry> ranks_;
  EventSink& sink_;
  Trainer* trainer_ = nullptr;  // of the step that is being made
  std::vector<int> joined_;     // the groups that ranks_' outer backends join
  int64_t meetings_ = 0;
  int lives_ = 0;
  bool begun_ = false;
  std::vector<int64_t> gone_;  // in this round
};

const RoundPlan* LocalMembership::PlanOf(int64_t step) const {
  for (const RoundPlan& round : plan_) {
    if (round.last_step >= step) return &round;
  }
  return nullptr;
}

bool LocalMembership::There(int64_t group) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [group](const LocalTelemetry& r) { return r.group == group; });
}

void LocalMembership::Lose(Trainer& trainer, int64_t group) {
  trainer.LoseGroup(static_cast<int>(group));
  std::erase_if(ranks_, [group](const LocalTelemetry& r) { return r.group == group; });
  gone_.push_back(group);
}

void LocalMembership::Strike(Trainer& trainer, const Fault& fault, int64_t step) {
  const int64_t group = fault.where.group;
  if (fault.what == FaultKind::kJoin) return;  // at the end of its round
  if (fault.where.kind == FaultPlace::Kind::kLink) {
    EmitFault(fault, step, "", sink_);  // a simulated clock's
  } else if (!There(group)) {
    EmitFault(fault, step, "the group was not there", sink_);
  } else if (EndsLife(fault)) {
    EmitFault(fault, step, "", sink_);
    Lose(trainer, group);
  } else if (fault.what == FaultKind::kPoison) {
    EmitFault(fault, step, "", sink_);
    trainer.Poison(static_cast<int>(group), fault.factor);
  } else {
    EmitFault(fault, step,
              spec_.simulated_clock() ? "" : "costs time alone, so nothing in one process", sink_);
  }
}

void LocalMembership::LoseWhoIsNotThere(Trainer& trainer, int64_t step) {
  const RoundPlan* round = PlanOf(step);
  if (round == nullptr) return;
  for (int64_t g = 0; g < spec_.outer.groups; ++g) {
    const auto has = [g](const std::vector<int64_t>& groups) {
      return std::find(groups.begin(), groups.end(), g) != groups.end();
    };
    if (!has(round->members) && !has(round->lost)) Lose(trainer, g);
  }
  gone_.clear();
  // In the middle of a round: who was lost in it before this step.
  const int64_t first = bounds_.plan().FirstStepOf(round->round);
  for (const Fault& fault : drawn_) {
    longhaul::Strike at = StrikeOf(fault, bounds_);
    if (at.after_outer) ++at.step;
    if (EndsLife(fault) && at.step >= first && at.step < step && There(fault.where.group)) {
      Lose(trainer, fault.where.group);
    }
  }
}

absl::Status LocalMembership::BeforeStep(Trainer& trainer, int64_t step) {
  trainer_ = &trainer;
  if (!std::exchange(begun_, true)) LoseWhoIsNotThere(trainer, step);
  for (const Fault& fault : drawn_) {
    longhaul::Strike at = StrikeOf(fault, bounds_);
    if (at.after_outer) ++at.step;
    if (at.step == step && fault.during != FaultMoment::kOuter) Strike(trainer, fault, step);
  }
  if (!ranks_.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("step ", step, ": no group is left that holds the training's state"));
}

absl::StatusOr<Meeting> LocalMembership::Meet(int64_t step) {
  for (const Fault& fault : drawn_) {
    if (fault.during != FaultMoment::kOuter || StrikeOf(fault, bounds_).step != step) continue;
    Strike(*trainer_, fault, step);
  }
  const RoundPlan& round = *PlanOf(step);
  const auto members = static_cast<int64_t>(round.members.size());
  const std::string too_few =
      TooFewMembers(round.round, step, members, spec_.outer.groups, spec_.outer.min_groups);
  if (!too_few.empty()) return absl::UnavailableError(too_few);
  Meeting meeting{.members = {round.members.begin(), round.members.end()}, .peers = {}};
  if (joined_ != meeting.members) {
    JoinLocalGroups(spec_, meeting.members, ++meetings_, ranks_);
    joined_ = meeting.members;
  }
  for (const LocalTelemetry& r : ranks_) meeting.peers.push_back({r.group, r.stage, r.outer});
  return meeting;
}

absl::StatusOr<bool> LocalMembership::Commit(const absl::Status& exchanged) {
  if (!exchanged.ok()) return exchanged;  // within one process nothing can be lost on the way
  return true;
}

// What the joiner of a swarm takes, copied. A member that is killed in the transfer is there until
// the next step.
absl::Status LocalMembership::Add(Trainer& trainer, std::vector<LocalRank> ranks,
                                  const RoundPlan& plan) const {
  if (spec_.outer.joiner_source == "member") return trainer.AddGroup(std::move(ranks));
  std::vector<int> lost;
  for (const Fault& fault : drawn_) {
    if (fault.during == FaultMoment::kTransfer && StrikeOf(fault, bounds_).step == plan.last_step) {
      lost.push_back(static_cast<int>(fault.where.group));
    }
  }
  return trainer.AddGroup(std::move(ranks), {plan.members.begin(), plan.members.end()}, lost);
}

absl::Status LocalMembership::AfterRound(Trainer& trainer, RoundRow* round) {
  const RoundPlan& plan = *PlanOf(round->last_step);
  const bool last = round->last_step == bounds_.steps;
  round->round = plan.round;
  std::sort(gone_.begin(), gone_.end());  // as groups are listed everywhere
  round->lost = absl::StrJoin(std::exchange(gone_, {}), " ");
  for (const int64_t group : plan.joiners) {
    if (last) break;  // nothing is left to train
    for (const Fault& fault : drawn_) {
      if (fault.what == FaultKind::kJoin && fault.where.group == group &&
          PlanOf(fault.at_step) == &plan) {
        EmitFault(fault, round->last_step, "", sink_);
      }
    }
    ASSIGN_OR_RETURN(std::vector<LocalTelemetry> fresh,
                     NewLocalGroup(spec_, static_cast<int>(group)));
    ++lives_;
    std::vector<LocalRank> local;
    for (LocalTelemetry& r : fresh) {
      r.life = lives_;
      local.push_back(ToLocalRank(r, nullptr, nullptr));
    }
    RETURN_IF_ERROR(Add(trainer, std::move(local), plan));
    ranks_.insert(ranks_.end(), fresh.begin(), fresh.end());
    absl::StrAppend(&round->joiners, round->joiners.empty() ? "" : " ", group);
    joined_.clear();  // nodes are new
  }
  std::sort(ranks_.begin(), ranks_.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return absl::OkStatus();
}

}  // namespace

std::string GroupList(const std::vector<int>& groups) { return absl::StrJoin(groups, " "); }

absl::StatusOr<std::vector<LocalTelemetry>> NewLocalGroup(const RunSpec& spec, int group) {
  const int count = static_cast<int>(spec.ranks());
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::string> pipeline;
  for (int r = 0; r < count; ++r) {
    ASSIGN_OR_RETURN(std::shared_ptr<Node> node,
                     Node::Create({.transport = TransportKind::kLoopback,
                                   .interface = "",
                                   .credit_bytes = int64_t{1} << 40}));
    nodes.push_back(std::move(node));
    pipeline.push_back(nodes.back()->address());
  }
  std::vector<LocalTelemetry> ranks;
  for (int r = 0; r < count; ++r) {
    const auto make = [&](GroupKind kind, int place, const std::vector<std::string>& members) {
      return ProcessGroupLonghaul::FromAddresses(place, members,
                                                 ToGroupOptions(spec, kind, group, nodes[r]));
    };
    const auto boundary = make(GroupKind::kBoundary, r, pipeline);
    const auto plain = make(GroupKind::kPlain, r, pipeline);
    for (LocalTelemetry& stage : StagesOfRank(spec, group, r)) {
      stage.node = nodes[r];
      stage.boundary = boundary;
      stage.plain = plain;
      if (const std::optional<int> place = TiedPlaceOf(spec, stage.stage)) {
        const auto other = static_cast<size_t>(stage.tied_peer);
        std::vector<std::string> ends = {pipeline[r], pipeline[other]};
        if (*place == 1) std::swap(ends.front(), ends.back());
        stage.tied = make(GroupKind::kTied, *place, ends);
      }
      ranks.push_back(std::move(stage));
    }
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const auto& a, const auto& b) { return a.stage < b.stage; });
  return ranks;
}

void JoinLocalGroups(const RunSpec& spec, const std::vector<int>& groups, int64_t meeting,
                     std::vector<LocalTelemetry>& ranks) {
  for (int s = 0; s < static_cast<int>(spec.schedule.stages); ++s) {
    std::vector<LocalTelemetry*> joined;
    std::vector<std::string> addresses;
    for (LocalTelemetry& r : ranks) {
      if (r.stage != s || std::find(groups.begin(), groups.end(), r.group) == groups.end())
        continue;
      joined.push_back(&r);
      addresses.push_back(r.node->address());
    }
    for (size_t i = 0; i < joined.size(); ++i) {
      LocalTelemetry& r = *joined[i];
      if (r.outer) r.earlier_outer.push_back({r.outer, r.outer_groups});
      auto options = ToGroupOptions(spec, GroupKind::kOuter, s, r.node);
      if (meeting > 0) absl::StrAppend(&options->group_name, "/meeting", meeting);
      r.outer = ProcessGroupLonghaul::FromAddresses(static_cast<int>(i), addresses, options);
      r.outer_groups = groups;
      if (spec.model.expert_parallel == 1) continue;
      r.experts = ProcessGroupLonghaul::FromAddresses(
          static_cast<int>(i), addresses, ToGroupOptions(spec, GroupKind::kExperts, s, r.node));
    }
  }
}

std::unique_ptr<Membership> NewLocalMembership(const RunSpec& spec,
                                               std::vector<LocalTelemetry> ranks, EventSink& sink) {
  return std::make_unique<LocalMembership>(spec, std::move(ranks), sink);
}

}  // namespace longhaul
