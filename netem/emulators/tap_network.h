#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "netem/emulator.h"
#include "netem/emulators/link_stage.h"
#include "netem/queues/queued_stage.h"
#include "netem/topology/impairment.h"
#include "netem/topology/topology.h"

namespace longhaul {

// What a managed queue asks of a frame.
struct FlowFacts {
  uint64_t hash = 0;
  bool ecn_capable = false;
};

// The tap emulator's model of a whole topology on synthetic time: uplink, path and downlink stages
// and the frames between them. It moves handles of frames, never their bytes: no clock, no I/O.
// A drop-tail stage with a rate knows when a frame leaves as it comes (LinkStage); under queue
// management or a rate trace frames wait in a QueuedStage, which is served by events of its own.
// Thread safety: none.
class TapNetwork {
 public:
  // `topology` is valid. All loss and jitter is drawn from `seed`. Rate traces begin at `start_ns`.
  TapNetwork(const Topology& topology, uint64_t seed, int64_t start_ns = 0);

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
                 int64_t segments, int64_t device_bytes = 0, bool copy = false,
                 const FlowFacts& flow = {});

  struct Output {
    uint32_t handle;
    int to;                  // meaningless when dropped
    bool delivered;          // false: dropped on its way; only give the handle back
    int64_t due_ns;          // when it was to leave
    bool congested = false;  // the caller is to set CE (MarkCongestion)
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
  std::vector<LineCounters> line_counters() const;  // without their names
  int64_t unroutable_drops() const { return unroutable_drops_; }
  void CountUnroutable() { ++unroutable_drops_; }

 private:
  // A frame on its way.
  struct Passage {
    int64_t wire_bytes, segments, device_bytes;
    Impairment::Fate fate = {};
    uint64_t flow = 0;
    uint32_t handle;
    int path;
    bool ecn_capable = false, congested = false;
  };
  enum class Step : uint8_t { kEnterUplink, kEnterPath, kEnterDownlink, kDeliver, kServe };
  struct Event {
    int64_t due_ns;
    uint64_t order;  // first come, first served among equals
    Step step;
    int station;  // of kServe
    Passage passage;
    // A server takes its turn before what comes at the very same time: that has missed it.
    bool operator>(const Event& other) const {
      if (due_ns != other.due_ns) return due_ns > other.due_ns;
      const bool serves = step == Step::kServe, other_serves = other.step == Step::kServe;
      return serves != other_serves ? other_serves : order > other.order;
    }
  };
  struct Path {
    int from, to;
    LinkStage stage;
    Impairment impairment;
    PathCounters counters;
    int uplink, downlink;  // of lines_; -1: it crosses none
    Carrier carrier = Carrier::kUp;
    int station = -1;  // where its frames wait instead of in `stage`
    bool keeps_order = true;
    int64_t delay_ns = 0, last_due_ns = 0;  // of the delay, behind the rate
  };
  struct LineSide {
    LinkStage stage;
    LineCounters counters;
    int station = -1;
  };
  struct AccessLine {
    LineSide up, down;
  };
  struct Station {
    QueuedStage stage;
    Step next;  // of what has left: kEnterPath behind an uplink, kEnterDownlink, kDeliver
    int line;   // -1: a path's
  };
  int PathIndex(int from, int to) const;
  LineSide Side(const Topology& topology, const AccessSpec& access, int node, bool is_up);
  LineSide* SideOf(const Station& station);
  QueuedStageSpec PathQueue(const Topology& topology, const PathSpec& spec) const;
  void Push(int64_t due_ns, Step step, const Passage& passage, int station = -1);
  Event Pop();
  void Deliver(int64_t now_ns, const Passage& passage);
  void HandBack(int64_t now_ns, const Passage& passage);
  void EnterPath(int64_t now_ns, const Passage& passage);
  void EnterDownlink(int64_t now_ns, const Passage& passage);
  void EnterDelay(int64_t left_ns, const Passage& passage);
  void EnterStation(int station, int64_t now_ns, const Passage& passage);
  void Serve(int station, int64_t now_ns);
  void Drop(const std::vector<DroppedFrame>& dropped, int station, int64_t now_ns);
  Passage Release(uint32_t tag);

  int num_nodes_;
  uint64_t seed_;
  int64_t start_ns_;
  std::vector<AccessLine> lines_;
  std::vector<Path> paths_;
  std::vector<Station> stations_;
  std::vector<int> path_of_pair_;  // [num_nodes * num_nodes], -1: none
  std::vector<Event> events_;      // a heap, the next one first
  std::deque<Output> outputs_;     // to be handed back before all else
  std::vector<Passage> waiting_;   // in stations, by tag
  std::vector<uint32_t> free_tags_;
  uint64_t order_ = 0;
  int64_t unroutable_drops_ = 0;
};

}  // namespace longhaul
