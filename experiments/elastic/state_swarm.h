#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/elastic/round_store.h"

namespace longhaul {

// How the state of one stage goes from all members of an outer step to a group that joins, through
// a closed swarm (docs/swarm.md). Its parts are folders of files (pp_group/state/handover.h): "state",
// the same on all members and shared by each, and "moments-K", of the K-th member alone. Through
// the c10d store, beside round_store.h's keys:
//
//   join/G/LIFE/S              its value is the address of that worker
//   swarm/STEP/S/G             stage S of G shares the state after STEP: "DIGEST IP:PORT" of each
//                              part; "! WHY": it does not
//   manifest/DIGEST            the manifest's text, which has this SHA-256
//   taking/STEP/S/G            stage S of G, which joins, fetches "state" and gives what it has of
//                              it at "IP:PORT"
//   lost/G/LIFE/S              a joiner's stage: the members whose moments it cannot have, "0 2"

// False: this build has no libtorrent, and what follows is FailedPrecondition.
bool SwarmIsBuilt();

// A stage's state after the outer step of `step`.
struct SharedState {
  int64_t step;
  int stage;
  Lives members;       // of the outer step: who gives
  bool moments;        // false: compute is injected, there are none
  std::string folder;  // of this process: the parts are below it
  std::string ip;      // this process's address
  // Of a joiner: the others that take this state, which give it what they have of its common part.
  Lives other_joiners = {};
  // Of a giver: most that it sends, of payload; nullopt: no limit.
  std::optional<int64_t> up_bytes_per_s = std::nullopt;
  // A fault that strikes when a part has been given or taken (OwnFaults::InTransfer); may be empty.
  std::function<void()> midway = {};
};

// One member's side. Its work is done on threads of its own and through a connection of its own to
// the store; the member trains on. It ends when all joiners have the state or are lost.
class StateGiver {
 public:
  // Takes over the folder, and removes it at the end. `store`: no other thread's.
  static absl::StatusOr<std::unique_ptr<StateGiver>> Start(SharedState state, int group,
                                                           Lives joiners,
                                                           c10::intrusive_ptr<c10d::Store> store,
                                                           int stages, int groups);
  virtual ~StateGiver() = default;  // ends it, within seconds
  // What went wrong since the last call, one line each. Any thread.
  virtual std::vector<std::string> TakeWarnings() = 0;
};

struct StateTaken {
  int64_t bytes = 0;       // of the parts that came
  std::vector<bool> lost;  // by place among the members
  // What came from whom, payload: the members, then other joiners.
  struct Giver {
    std::string name;  // "group 0", "joiner 1"
    int group;
    int64_t bytes;
  };
  std::vector<Giver> givers;
  absl::Duration offered, arrived;      // from the start: all offers, all bytes
  std::vector<std::string> words = {};  // who was banned, who could not give
};

// The joiner's side: fetches the parts into state.folder, each checked against its manifest and
// that against its SHA-256. Other joiners give and get what is the same for all; one of them that
// is lost costs nothing but what it would have given. A member that cannot give costs the others'
// bandwidth alone and the joiner its moments. All stages of `group` call it and agree on who could
// not. Unavailable, DeadlineExceeded: no member has given; `patience` without a byte is the end of
// it. DataLoss.
absl::StatusOr<StateTaken> TakeStateFromAll(const SharedState& state, int group, int life,
                                            absl::Duration patience, RoundStore& store);

}  // namespace longhaul
