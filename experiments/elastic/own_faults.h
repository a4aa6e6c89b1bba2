#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/elastic/round_store.h"
#include "experiments/spec/round_plan.h"
#include "experiments/train/event_stream.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Whether it ends a life of the group: a kill, a leave, a stop for ever.
bool EndsLife(const Fault& fault);
// Whether a fault strikes this worker: it names it, or its whole group. One worker of a struck group
// tells of it: the one that is named, or else stage 0.
bool StrikesWorker(const Fault& fault, int64_t group, int64_t stage);
bool WorkerTells(const Fault& fault, int64_t stage);
// Whether a fault strikes at the checkpoint after `step`: a kill at the one that StrikeOf says, a
// full disk at the first from its step on.
bool StrikesAtCheckpoint(const Fault& fault, FaultKind what, int64_t step,
                         const RoundBounds& bounds);
// Before which step the lab mends what it did for for_steps; 0: never by step.
int64_t MendStep(const Fault& fault);

// A fault script as one rank among processes suffers it: this process is killed, stopped, slowed or
// leaves, and what the lab does (links, joins) is asked of it. Every fault is told once, by the
// worker that it names or by stage 0 of its group.
class OwnFaults {
 public:
  struct Place {
    int group, stage, life;
    int phase_fd;  // to the lab; -1: none
  };
  // Borrows store and sink. `before_end`: called before a fault ends this process, unless it is one
  // in a transfer, so that what others are to have of it costs them nothing.
  OwnFaults(std::vector<Fault> script, RoundBounds bounds, Place place, RoundStore& store,
            EventSink& sink, std::function<void()> before_end)
      : script_(std::move(script)),
        bounds_(bounds),
        place_(place),
        store_(store),
        sink_(sink),
        before_end_(std::move(before_end)) {}

  const std::vector<Fault>& script() const { return script_; }

  // `expected`: the groups of this round. Cancelled: this group leaves here. Errors of the store.
  absl::Status BeforeStep(Trainer& trainer, int64_t step, const Lives& expected);
  // `compute`: what this rank itself computed in the step.
  void AfterStep(int64_t step, absl::Duration compute);
  // The members of the outer step after `step` are settled.
  void AtOuterStep(int64_t step);
  // To be called from any thread when a part of a state has been given or taken after the outer
  // step of `step`: kills this process. Empty: the script wants nothing there.
  std::function<void()> InTransfer(int64_t step) const;
  // May set `directory` to one that is full, or see to it that the write kills this process.
  absl::Status BeforeCheckpoint(int64_t step, std::string* directory);
  void AfterCheckpoint(int64_t step);

 private:
  bool Concerns(const Fault& fault) const;
  absl::Status Strike(Trainer& trainer, const Fault& fault, int64_t step);
  void StrikeAt(Trainer& trainer, const Fault& fault, int64_t step);
  void AskLab(size_t number, int64_t step, const Lives& expected);
  const Fault* AtCheckpoint(FaultKind what, int64_t step) const;

  const std::vector<Fault> script_;
  const RoundBounds bounds_;
  const Place place_;
  RoundStore& store_;
  EventSink& sink_;
  const std::function<void()> before_end_;
  double slow_factor_ = 1;
  int64_t slow_until_ = 0;  // the first step that is as before
};

}  // namespace longhaul
