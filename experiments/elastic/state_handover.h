#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "experiments/elastic/round_store.h"
#include "experiments/elastic/swarm_handover.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "pp_group/trainer.h"

namespace longhaul {

// How the state of a training comes from the members of an outer step to groups that join after it,
// as one rank sees it: from the lowest member through a backend of the two, which waits until it is
// taken, or from all members through a swarm, beside the training (outer.joiner_source). One
// thread. Every call may throw what the store does.
class StateHandover {
 public:
  struct Place {
    LocalTelemetry rank;  // its numbers and its life
    std::string ip;       // of this process, as others reach it
    std::string interface;
    bool node;  // of a lab
  };
  // Borrows spec, store and sink.
  StateHandover(const RunSpec& spec, c10::intrusive_ptr<c10d::Store> c10d_store, RoundStore& store,
                std::shared_ptr<Node> node, Place place, EventSink& sink);

  // Before the first of the calls below.
  void Connect();

  // A member's, after the outer step of `step`: to all its joiners. One that is lost meanwhile is
  // told as a fault, and is the next round's matter. `midway`: a fault that strikes in a transfer.
  void ToAll(Trainer& trainer, int64_t step, const Decision& now, std::function<void()> midway);
  // Until no joiner needs this group any more: all have the state on all stages, or are lost.
  void AwaitTaken();
  // Somebody joined through a swarm since the last round, maybe this group.
  bool swarmed() const { return swarmed_; }

  // A joiner's: of `step`, from `givers`, while all of `there` are there. What came from whom is
  // told, and in words added to *said.
  absl::Status Take(Trainer& trainer, int64_t step, const Lives& givers, const Lives& there,
                    std::function<void()> midway, std::string* said);

 private:
  bool Swarm() const { return spec_.outer.joiner_source == "swarm"; }
  absl::Duration Patience() const { return 2 * absl::Seconds(spec_.net.peer_deadline_s); }
  void Welcome(int group, int life, int64_t step, const Decision& now);
  absl::Status HandOver(Trainer& trainer, int group, int life);

  const RunSpec& spec_;
  const c10::intrusive_ptr<c10d::Store> c10d_store_;
  RoundStore& store_;
  const std::shared_ptr<Node> node_;
  const LocalTelemetry rank_;
  EventSink& sink_;
  SwarmHandover swarm_;
  Lives given_to_;  // through the swarm since the last round
  bool swarmed_ = false;
};

}  // namespace longhaul
