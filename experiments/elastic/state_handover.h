#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/elastic/round_store.h"
#include "experiments/elastic/state_swarm.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "experiments/train/temporary_folder.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Both sides of outer.joiner_source = "swarm" in one rank's process: from the trainer to files that
// are shared, and from fetched files to the trainer. One thread.
class SwarmHandover {
 public:
  struct Place {
    int group, stage, life;
    std::string ip;         // this process's, as the others reach it
    std::string interface;  // whose counters must have seen what is taken; empty: none
    bool node;              // of a lab: its files lie in memory that is gone with the process
  };
  // Borrows spec and sink. `store` as the run's ranks see it.
  SwarmHandover(const RunSpec& spec, Place place, c10::intrusive_ptr<c10d::Store> store,
                EventSink& sink)
      : spec_(spec), place_(std::move(place)), store_(std::move(store)), sink_(sink) {}
  ~SwarmHandover() { Stop(); }

  // A connection to the store for what gives beside the training; once, before Give. Throws what
  // the store does.
  void Connect() { own_store_ = store_->clone(); }

  // A member's, after the outer step of `step`: writes the state, and shares it while the training
  // goes on. What cannot be is told to the joiners and as a fault, and costs them this giver.
  void Give(Trainer& trainer, int64_t step, const Decision& now, std::function<void()> midway);
  // Ends what is shared still, and tells what went wrong.
  void Stop();

  // A joiner's: the state of `step` from `members`, and from `others` that join. Errors are
  // TakeStateFromAll's. What came from whom is added to *said.
  absl::Status Take(Trainer& trainer, int64_t step, const Lives& members, const Lives& others,
                    std::function<void()> midway, RoundStore& store, std::string* said);

 private:
  absl::StatusOr<std::string> MakeFolder(const std::string& name);
  absl::Status CheckCounted(int64_t before, int64_t taken) const;
  void Tell(int64_t step, const std::string& what);
  void TellTaken(const StateTaken::Giver& giver);
  SharedState StateOf(int64_t step, const Lives& members, std::string folder,
                      std::function<void()> midway) const;

  const RunSpec& spec_;
  const Place place_;
  const c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> own_store_;
  EventSink& sink_;
  bool mounted_ = false;
  std::unique_ptr<TemporaryFolder> temporary_;  // in place of a node's disk
  int64_t given_step_ = 0;
  std::unique_ptr<StateGiver> giver_;
};

// Bytes that came in on an interface of this node; 0 for "".
int64_t ReceivedOn(const std::string& interface);

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
