#pragma once

#include <memory>
#include <vector>

#include "plugin/backend/process_group.h"

namespace longhaul {

// One stage of a local rank as the record sees it: its place, and the groups whose counters are
// reported. Stages of one rank share its node, boundary and plain.
struct LocalTelemetry {
  int rank;  // of the run: group * P + rank of the pipeline
  int group;
  int stage;
  bool looped = false;  // the rank has several stages
  bool lowest = true;   // this is the first of them, which tells what the rank has counted
  int tied_peer = -1;   // the group's rank that holds the other end of a tied head; -1: none does
  c10::intrusive_ptr<ProcessGroupLonghaul> boundary = {};
  c10::intrusive_ptr<ProcessGroupLonghaul> plain = {};
  c10::intrusive_ptr<ProcessGroupLonghaul> outer = {};    // null when there is one group
  std::vector<int> outer_groups = {};                     // which group each rank of `outer` is
  c10::intrusive_ptr<ProcessGroupLonghaul> experts = {};  // of all groups; null: none are spread
  c10::intrusive_ptr<ProcessGroupLonghaul> tied = {};     // of both ends of a tied head; else null
  // Where groups come and go: what joined others before `outer`.
  struct Outer {
    c10::intrusive_ptr<ProcessGroupLonghaul> backend;
    std::vector<int> groups;
  };
  std::vector<Outer> earlier_outer = {};
  std::shared_ptr<Node> node = nullptr;  // in one process
  int life = 0;                          // of its group: how often it was started anew
};

}  // namespace longhaul
