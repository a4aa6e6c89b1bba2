#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "absl/time/time.h"

namespace longhaul {

// Where groups come and go: who is there, in which life, and who is started anew. Times are of one
// clock. Numbers and no processes: those are the pool's (worker_pool.h).
class GroupLives {
 public:
  GroupLives() = default;
  // All `groups` are there but those of `absent`, which are gone until they are wanted.
  GroupLives(int groups, const std::set<int64_t>& absent);

  bool IsThere(int group) const { return !groups_.at(group).gone; }
  bool IsLost(int group) const { return groups_.at(group).lost; }
  // Lost for longer than `since`.
  bool IsLostFor(int group, absl::Duration since, absl::Duration now) const;
  int Life(int group) const { return groups_.at(group).life; }  // from 0
  // Whether anybody holds the training's state.
  bool AnyHolds() const;

  void Started(int group, absl::Duration now) { groups_.at(group).started = now; }
  void Met(int group) { groups_.at(group).met = true; }      // was a member of an outer step
  void Holds(int group) { groups_.at(group).holds = true; }  // has taken the state over
  // What it has lost with this: nothing, it was lost already; a life; a life with the state.
  enum class Loss { kNone, kLife, kState };
  Loss Lose(int group, absl::Duration now);
  // It is lost, and comes only if it is wanted.
  void Leave(int group, absl::Duration now);
  // The script lets it come, when its processes have ended; it starts with a clean record.
  void Want(int group);

  // A lost group whose processes have ended. One whose lives have ended kMostFailedStarts + 1
  // times in a row before an outer step, none of them longer than kLongLife, is given up.
  enum class Next { kStart, kStay, kGiveUp };
  Next WhatNext(int group, absl::Duration now);
  int FailedStarts(int group) const { return groups_.at(group).failed_starts; }

  static constexpr int kMostFailedStarts = 5;
  static constexpr absl::Duration kLongLife = absl::Minutes(2);

 private:
  struct Group {
    int life = 0;
    bool lost = false;  // its workers are being ended
    bool gone = false;  // not started anew
    bool holds = true;  // the training's state
    absl::Duration started = absl::ZeroDuration(), lost_at = absl::ZeroDuration();
    bool wanted = false;    // the script lets it join
    bool met = false;       // this life was a member of an outer step
    int failed_starts = 0;  // in a row
  };
  std::map<int, Group> groups_;
};

}  // namespace longhaul
