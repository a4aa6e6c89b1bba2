#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "experiments/elastic/membership.h"
#include "experiments/elastic/round_store.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// One rank among processes that come and go. `life`: of its group; 0: it is there from the start.
struct StorePlace {
  LocalTelemetry rank;  // its boundary and plain backends are those of this life
  int life;
  int phase_fd;               // told "joined"; -1: no lab
  std::string ip, interface;  // of this process: how others reach it, and what counts its bytes
  bool resumes = false;       // every rank of the run has files of one checkpoint
};

// What ends a process of a run that goes on without it (worker.h): Aborted, Unavailable and
// DeadlineExceeded of the functions below. Other errors end the run.
class StoreMembership : public Membership {
 public:
  // `store` as the run's ranks see it; borrows spec and sink.
  static std::unique_ptr<StoreMembership> Create(const RunSpec& spec,
                                                 c10::intrusive_ptr<c10d::Store> store,
                                                 std::shared_ptr<Node> node, StorePlace place,
                                                 EventSink& sink);
  // Of a life that is not the first: waits until the others hand the state over, and takes it.
  // False: the run ended before.
  virtual absl::StatusOr<bool> Join(Trainer& trainer) = 0;
  // Joins the groups that are there at first, which then agree on a checkpoint to go on from; other
  // lives have nothing to do. Unavailable: somebody did not come. The first outer step makes good
  // for it where there is no checkpoint to agree on.
  virtual absl::Status MeetAtFirst() = 0;
  // The last outer step has been taken: nobody is waited for any more.
  virtual void SayOver() = 0;
};

}  // namespace longhaul
