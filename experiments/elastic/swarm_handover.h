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

}  // namespace longhaul
