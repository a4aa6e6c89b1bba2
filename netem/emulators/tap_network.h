#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netem/emulator.h"
#include "netem/emulators/link_stage.h"
#include "netem/topology/impairment.h"
#include "netem/topology/topology.h"

namespace longhaul {

// The tap emulator's model of a whole topology on synthetic time: uplink, path and downlink stages
// and the frames between them. It moves handles of frames, never their bytes: no clock, no I/O.
// Thread safety: none.
class TapNetwork {
 public:
  // `topology` is valid. All loss and jitter is drawn from `seed`.
  TapNetwork(const Topology& topology, uint64_t seed);

  // What became of a frame that arrived.
  struct Arrival {
    bool taken = false;       // false: dropped, and the handle is the caller's again
    bool duplicated = false;  // the caller is to let a copy arrive, with `copy`
    std::optional<uint64_t> flip =
        std::nullopt;                        // corrupted: the caller is to flip a bit (FlipBit)
    operator bool() const { return taken; }  // NOLINT: what most ask
  };
  // A frame of node `from` for node `to` arrives at `now_ns` (never before an earlier arrival).
  // It is dropped and counted (no such path, loss, full queue), or taken: Next() will hand it back.
  // `device_bytes`: of the frame as its device gave it; 0: as many as on the wire. `copy`: of a
  // duplicated frame; it meets everything that a frame does but duplication.
  Arrival Arrive(int64_t now_ns, int from, int to, uint32_t handle, int64_t wire_bytes,
                 int64_t segments, int64_t device_bytes = 0, bool copy = false);

  struct Output {
    uint32_t handle;
    int to;          // meaningless when dropped
    bool delivered;  // false: dropped at the downlink; only give the handle back
    int64_t due_ns;  // when it was to leave
  };
  // The next frame that is due at or before `now_ns`, in due-time order.
  std::optional<Output> Next(int64_t now_ns);

  // When to call Next() again; nullopt: nothing is on its way.
  std::optional<int64_t> next_due_ns() const;
  // The earliest of these times that is later than `ns`; nullopt: none is, or finding it takes
  // long, because much is due before.
  std::optional<int64_t> next_due_after(int64_t ns) const;

  // For frames that arrive from now on; those on their way keep their time. The path must exist;
  // `topology` is the whole with the path changed in it.
  void ChangePath(const Topology& topology, const PathSpec& path);
  // A path that is down loses every frame that arrives, counted as loss.
  void SetCarrier(int from, int to, Carrier carrier);

  // Null when the pair may not talk.
  const PathCounters* counters(int from, int to) const;
  int64_t unroutable_drops() const { return unroutable_drops_; }
  void CountUnroutable() { ++unroutable_drops_; }

 private:
  struct Path {
    int from, to;
    LinkStage stage;
    Impairment impairment;
    PathCounters counters;
    int uplink, downlink;  // of lines_; -1: it crosses none
    Carrier carrier = Carrier::kUp;
  };
  struct Event {
    int64_t due_ns;
    uint64_t order;  // first come, first served among equals
    int64_t wire_bytes;
    int64_t segments;
    int64_t device_bytes;
    uint32_t handle;
    int path;
    bool passed_downlink;
    bool operator>(const Event& other) const {
      return due_ns != other.due_ns ? due_ns > other.due_ns : order > other.order;
    }
  };
  struct AccessLine {
    LinkStage up, down;
  };
  int PathIndex(int from, int to) const;
  void Push(const Event& event);
  Event Pop();

  int num_nodes_;
  std::vector<AccessLine> lines_;
  std::vector<Path> paths_;
  std::vector<int> path_of_pair_;  // [num_nodes * num_nodes], -1: none
  std::vector<Event> events_;      // a heap, the next one first
  uint64_t order_ = 0;
  int64_t unroutable_drops_ = 0;
};

// True when frames that leave this node must be cut to the MTU before they meet a queue: a whole
// TSO frame would be lost, or would block a slow line or fill a short queue, up to 64 kB at once.
bool NeedsMtuFrames(const Topology& topology, int node);

}  // namespace longhaul
