#pragma once

#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Who meets at an outer step: group numbers, ascending.
struct Meeting {
  std::vector<int> members;
  // Of one local rank: one rank for each member, in that order; null with one member.
  struct Peers {
    int group, stage;
    c10::intrusive_ptr<c10d::Backend> backend;
  };
  std::vector<Peers> peers;  // of every local rank whose group is a member
};

// Decides, where groups come and go, who is a member of an outer step, and whether it counts. All
// S ranks of all members are told the same. Called by the trainer's thread; the calls of a round:
// Meet, an exchange, Commit, and again from Meet while Commit says false.
class RoundKeeper {
 public:
  virtual ~RoundKeeper() = default;

  // The local ranks have finished inner step `step`, after which an outer step is due. Blocks until
  // it is known who meets. Errors end the training of this process: Aborted: this group was late
  // and may come back; FailedPrecondition: too few groups are left; Unavailable: nobody to ask.
  virtual absl::StatusOr<Meeting> Meet(int64_t step) = 0;

  // `exchanged`: what the local ranks' exchange with the meeting's members ended with. True: every
  // member has every frame, and all take this outer step. False: nobody does; meet again.
  virtual absl::StatusOr<bool> Commit(const absl::Status& exchanged) = 0;
};

}  // namespace longhaul
