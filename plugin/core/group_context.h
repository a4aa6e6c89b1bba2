#pragma once

#include <compare>
#include <memory>
#include <string>
#include <vector>

#include "plugin/core/coder.h"
#include "plugin/core/coding.h"
#include "plugin/core/counter_table.h"
#include "plugin/core/group.h"
#include "plugin/core/history.h"
#include "plugin/core/node_core.h"
#include "plugin/core/waits.h"

namespace longhaul {

// What the parts of one group share; on the strand.
struct GroupContext {
  GroupOptions options;
  uint64_t hash = 0;
  std::shared_ptr<NodeCore> node;
  std::vector<Peer*> peers;  // by rank; nullptr: this rank
  CodingTable coding;
  CounterTable counters;
  History history;
  WaitTable waits = {};
  MessageWatch watch = {};    // times are taken only while there is one
  std::weak_ptr<void> owner;  // the group; callbacks inside the transport keep it alive
  absl::Duration armed = absl::InfiniteDuration();  // the next OnTimer that is asked for

  absl::Duration Now() const { return node->clock().Now(); }
  // Of an operation that begins now. A collective's messages have none: it has one itself.
  absl::Duration DeadlineIn(ChannelSpace space) {
    return space == ChannelSpace::kCollective ? absl::InfiniteDuration()
                                              : NewDeadline(options.timeout);
  }
  absl::Duration NewDeadline(absl::Duration timeout) {
    const absl::Duration now = Now(), deadline = now + timeout;
    const absl::Duration look = NextLook(deadline, timeout, now);
    if (look < armed) {
      armed = look;
      node->WakeAt(look);
    }
    return deadline;
  }
  // Of a late operation that waits for `rank`.
  std::string WhyLate(int rank) const {
    return waits.Chain(rank, options.rank, options.timeout / 2, Now());
  }
  Coder& CoderOf(const WireTensor& x) const { return x.coder ? *x.coder : node->coder(); }
  // What a job of CoderOf(x) holds until its last callback.
  std::shared_ptr<void> HoldNodeFor(const WireTensor& x) const {
    return x.coder ? node->JobElsewhere() : nullptr;
  }
  PacketHeader Header(PacketKind kind) const {
    return {
        .kind = kind, .source_node = node->node_id(), .group = hash, .source_rank = options.rank};
  }
};

// Names one channel of a group: a peer's rank, a space and a tag.
struct ChannelKey {
  int rank;
  ChannelSpace space;
  int tag;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ChannelKey& key) {
    return H::combine(std::move(h), key.rank, key.space, key.tag);
  }
};

// "tag 3" or "collective 12".
std::string ToString(ChannelSpace space, int tag);

}  // namespace longhaul
