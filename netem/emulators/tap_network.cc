#include "netem/emulators/tap_network.h"

#include <algorithm>
#include <array>
#include <functional>

#include "netem/emulators/frame.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

StageSpec PathStage(const Topology& topology, const PathSpec& path) {
  if (!path.rate) return {};
  return {path.rate, PathQueueCapacity(topology, path)};
}

bool IsManaged(const QueueManagement& aqm) { return aqm.kind != QueueManagement::Kind::kDropTail; }

}  // namespace

TapNetwork::LineSide TapNetwork::Side(const Topology& topology, const AccessSpec& access, int node,
                                      bool is_up) {
  const BitsPerSecond rate = is_up ? access.up : access.down;
  const int64_t frame_bytes = FrameBytes(topology.mtu);
  const QueueCapacity capacity = AccessQueueCapacity(topology, node, rate);
  LineSide side{LinkStage({rate, capacity}), {.name = "", .is_up = is_up}};
  if (!IsManaged(access.aqm)) return side;
  side.station = static_cast<int>(stations_.size());
  stations_.push_back({QueuedStage({.rate = rate,
                                    .capacity = capacity,
                                    .management = access.aqm,
                                    .frame_bytes = frame_bytes,
                                    .seed = seed_}),
                       is_up ? Step::kEnterPath : Step::kDeliver, static_cast<int>(lines_.size())});
  return side;
}

TapNetwork::TapNetwork(const Topology& topology, uint64_t seed, int64_t start_ns)
    : num_nodes_(static_cast<int>(topology.nodes.size())),
      seed_(seed),
      start_ns_(start_ns),
      path_of_pair_(topology.nodes.size() * topology.nodes.size(), -1) {
  std::vector<int> place(LineCount(topology), -1);  // of a line in lines_
  for (int node = 0; node < num_nodes_; ++node) {
    const AccessSpec* access = LineBefore(topology, node);
    if (access == nullptr) continue;
    int& at = place[*LineOf(topology, node)];
    if (at >= 0) continue;
    at = static_cast<int>(lines_.size());
    // One after the other: a station knows its line by the number that it is to get.
    LineSide up = Side(topology, *access, node, true);
    lines_.push_back({std::move(up), Side(topology, *access, node, false)});
  }
  const auto place_of = [&](const AccessSpec* access, int node) {
    return access == nullptr ? -1 : place[*LineOf(topology, node)];
  };
  for (const PathSpec& path : topology.paths) {
    path_of_pair_[path.from * num_nodes_ + path.to] = static_cast<int>(paths_.size());
    paths_.push_back({path.from,
                      path.to,
                      LinkStage(PathStage(topology, path)),
                      Impairment(ImpairmentOf(path), seed, path.from, path.to),
                      {},
                      place_of(UplinkOf(topology, path), path.from),
                      place_of(DownlinkOf(topology, path), path.to)});
    ChangePath(topology, path);
  }
}

int TapNetwork::PathIndex(int from, int to) const {
  const bool known = from >= 0 && from < num_nodes_ && to >= 0 && to < num_nodes_;
  return known ? path_of_pair_[from * num_nodes_ + to] : -1;
}

TapNetwork::Arrival TapNetwork::Arrive(int64_t now_ns, int from, int to, uint32_t handle,
                                       int64_t wire_bytes, int64_t segments, int64_t device_bytes,
                                       bool copy, const FlowFacts& flow) {
  const int index = PathIndex(from, to);
  if (index < 0) {
    ++unroutable_drops_;
    return {};
  }
  Path& path = paths_[index];
  LineSide* uplink = path.uplink < 0 ? nullptr : &lines_[path.uplink].up;
  const bool waits_first = uplink != nullptr && uplink->station >= 0;
  int64_t at_path_ns = now_ns;
  if (uplink != nullptr && !waits_first) {
    const auto left = uplink->stage.Admit(now_ns, wire_bytes, segments);
    if (!left) {
      path.counters.drops_queue += segments;
      uplink->counters.drops_queue += segments;
      return {};
    }
    uplink->counters.packets += segments;
    at_path_ns = *left;
  }
  Impairment::Fate fate = path.impairment.Next();
  const bool up = path.carrier == Carrier::kUp;
  fate.lost = fate.lost || !up;
  // As netem: lost and duplicated is one frame that arrives.
  Arrival arrival{.taken = false, .duplicated = fate.duplicated && !copy && up};
  if (fate.corrupted) arrival.flip = path.impairment.flip();
  const Passage passage{.wire_bytes = wire_bytes,
                        .segments = segments,
                        .device_bytes = device_bytes > 0 ? device_bytes : wire_bytes,
                        .fate = fate,
                        .flow = flow.hash,
                        .handle = handle,
                        .path = index,
                        .ecn_capable = flow.ecn_capable};
  if (!waits_first && fate.lost) {
    path.counters.drops_loss += segments;
    return arrival;
  }
  if (waits_first || path.station >= 0) {
    // In order of time with what the stations do meanwhile.
    Push(at_path_ns, waits_first ? Step::kEnterUplink : Step::kEnterPath, passage);
  } else {
    const auto left = path.stage.Admit(at_path_ns, wire_bytes, segments);
    if (!left) {
      path.counters.drops_queue += segments;
      return arrival;
    }
    EnterDelay(*left, passage);
  }
  path.counters.held_bytes += wire_bytes;
  arrival.taken = true;
  return arrival;
}

std::optional<TapNetwork::Output> TapNetwork::Next(int64_t now_ns) {
  while (outputs_.empty()) {
    if (events_.empty() || events_.front().due_ns > now_ns) return std::nullopt;
    const Event event = Pop();
    switch (event.step) {
      case Step::kEnterUplink:
        EnterStation(lines_[paths_[event.passage.path].uplink].up.station, event.due_ns,
                     event.passage);
        break;
      case Step::kEnterPath:
        EnterPath(event.due_ns, event.passage);
        break;
      case Step::kEnterDownlink:
        EnterDownlink(event.due_ns, event.passage);
        break;
      case Step::kServe:
        Serve(event.station, event.due_ns);
        break;
      case Step::kDeliver:
        Deliver(event.due_ns, event.passage);
        break;
    }
  }
  const Output output = outputs_.front();
  outputs_.pop_front();
  return output;
}

void TapNetwork::Deliver(int64_t now_ns, const Passage& passage) {
  Path& path = paths_[passage.path];
  path.counters.held_bytes -= passage.wire_bytes;
  path.counters.packets += passage.segments;
  path.counters.bytes += passage.wire_bytes;
  path.counters.device_bytes += passage.device_bytes;
  outputs_.push_back({passage.handle, path.to, true, now_ns, passage.congested});
}

void TapNetwork::HandBack(int64_t now_ns, const Passage& passage) {
  Path& path = paths_[passage.path];
  path.counters.held_bytes -= passage.wire_bytes;
  outputs_.push_back({passage.handle, path.to, false, now_ns});
}

// Behind an uplink whose frames wait, or before a queue of its own.
void TapNetwork::EnterPath(int64_t now_ns, const Passage& passage) {
  Path& path = paths_[passage.path];
  if (passage.fate.lost) {
    path.counters.drops_loss += passage.segments;
    HandBack(now_ns, passage);
  } else if (path.station >= 0) {
    EnterStation(path.station, now_ns, passage);
  } else if (const auto left = path.stage.Admit(now_ns, passage.wire_bytes, passage.segments)) {
    EnterDelay(*left, passage);
  } else {
    path.counters.drops_queue += passage.segments;
    HandBack(now_ns, passage);
  }
}

// The path's rate has sent the frame.
void TapNetwork::EnterDelay(int64_t left_ns, const Passage& passage) {
  Path& path = paths_[passage.path];
  int64_t due_ns = left_ns;
  if (!passage.fate.reordered) {
    due_ns += std::max<int64_t>(0, path.delay_ns + passage.fate.jitter_ns);
    if (path.keeps_order) due_ns = path.last_due_ns = std::max(path.last_due_ns, due_ns);
  }
  Push(due_ns, path.downlink >= 0 ? Step::kEnterDownlink : Step::kDeliver, passage);
}

// Sources share the downlink, so frames enter it in the order in which their paths end.
void TapNetwork::EnterDownlink(int64_t now_ns, const Passage& passage) {
  Path& path = paths_[passage.path];
  LineSide& side = lines_[path.downlink].down;
  if (side.station >= 0) {
    EnterStation(side.station, now_ns, passage);
  } else if (const auto left = side.stage.Admit(now_ns, passage.wire_bytes, passage.segments)) {
    side.counters.packets += passage.segments;
    Push(*left, Step::kDeliver, passage);
  } else {
    path.counters.drops_queue += passage.segments;
    side.counters.drops_queue += passage.segments;
    HandBack(now_ns, passage);
  }
}

void TapNetwork::EnterStation(int station, int64_t now_ns, const Passage& passage) {
  if (free_tags_.empty()) {
    free_tags_.push_back(static_cast<uint32_t>(waiting_.size()));
    waiting_.emplace_back();
  }
  const uint32_t tag = free_tags_.back();
  free_tags_.pop_back();
  waiting_[tag] = passage;
  const QueuedFrame frame{
      .tag = tag,
      .wire_bytes = passage.wire_bytes,
      .packet_bytes = std::max<int64_t>(
          1, passage.wire_bytes - passage.segments * static_cast<int64_t>(kEthernetHeaderBytes)),
      .packets = passage.segments,
      .arrived_ns = now_ns,
      .flow = passage.flow,
      .ecn_capable = passage.ecn_capable};
  std::vector<DroppedFrame> dropped;
  const auto serve_ns = stations_[station].stage.Arrive(frame, dropped);
  if (serve_ns) Push(*serve_ns, Step::kServe, {}, station);
  Drop(dropped, station, now_ns);
}

TapNetwork::Passage TapNetwork::Release(uint32_t tag) {
  free_tags_.push_back(tag);
  return waiting_[tag];
}

TapNetwork::LineSide* TapNetwork::SideOf(const Station& station) {
  if (station.line < 0) return nullptr;
  AccessLine& line = lines_[station.line];
  return station.next == Step::kEnterPath ? &line.up : &line.down;
}

void TapNetwork::Drop(const std::vector<DroppedFrame>& dropped, int station, int64_t now_ns) {
  LineSide* side = SideOf(stations_[station]);
  for (const auto& [frame, reason] : dropped) {
    const Passage passage = Release(frame.tag);
    PathCounters& counters = paths_[passage.path].counters;
    const bool managed = reason == DropReason::kManaged;
    (managed ? counters.drops_aqm : counters.drops_queue) += passage.segments;
    if (side != nullptr) {
      (managed ? side->counters.drops_aqm : side->counters.drops_queue) += passage.segments;
    }
    HandBack(now_ns, passage);
  }
}

void TapNetwork::Serve(int station, int64_t now_ns) {
  std::vector<QueuedStage::Departure> departures;
  std::vector<DroppedFrame> dropped;
  const auto again_ns = stations_[station].stage.Serve(now_ns, departures, dropped);
  Drop(dropped, station, now_ns);
  const Step next = stations_[station].next;
  LineSide* side = SideOf(stations_[station]);
  for (const auto& [frame, left_ns] : departures) {
    Passage passage = Release(frame.tag);
    Path& path = paths_[passage.path];
    if (frame.marked) {
      passage.congested = true;
      path.counters.ecn_marks += passage.segments;
      if (side != nullptr) side->counters.ecn_marks += passage.segments;
    }
    if (side != nullptr) {
      side->counters.packets += passage.segments;
      Push(left_ns, next, passage);
      continue;
    }
    EnterDelay(left_ns, passage);
  }
  if (again_ns) Push(*again_ns, Step::kServe, {}, station);
}

std::optional<int64_t> TapNetwork::next_due_ns() const {
  if (events_.empty()) return std::nullopt;
  return events_.front().due_ns;
}

std::optional<int64_t> TapNetwork::next_due_after(int64_t ns) const {
  constexpr size_t kMost = 64;
  std::array<size_t, 2 * kMost + 1> open;  // of the heap: their parents are due by then
  size_t count = 0, seen = 0;
  open[count++] = 0;
  std::optional<int64_t> earliest;
  while (count > 0) {
    const size_t at = open[--count];
    if (at >= events_.size()) continue;
    const int64_t due_ns = events_[at].due_ns;
    if (due_ns > ns) {
      earliest = std::min(earliest.value_or(due_ns), due_ns);
      continue;
    }
    if (++seen > kMost) return std::nullopt;
    open[count++] = 2 * at + 1;
    open[count++] = 2 * at + 2;
  }
  return earliest;
}

void TapNetwork::Push(int64_t due_ns, Step step, const Passage& passage, int station) {
  events_.push_back({due_ns, order_++, step, station, passage});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

TapNetwork::Event TapNetwork::Pop() {
  std::pop_heap(events_.begin(), events_.end(), std::greater<>());
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

QueuedStageSpec TapNetwork::PathQueue(const Topology& topology, const PathSpec& spec) const {
  const int64_t frame_bytes = FrameBytes(topology.mtu);
  return {.rate = spec.rate,
          .trace = spec.rate_trace,
          .trace_start_ns = start_ns_,
          .capacity = PathQueueCapacity(topology, spec),
          .management = spec.aqm,
          .frame_bytes = frame_bytes,
          .seed = seed_};
}

// A path whose frames once waited in a station keeps it: those inside must not be overtaken.
void TapNetwork::ChangePath(const Topology& topology, const PathSpec& spec) {
  Path& path = paths_[PathIndex(spec.from, spec.to)];
  path.stage.Change(PathStage(topology, spec));
  path.impairment.Change(ImpairmentOf(spec));
  path.delay_ns = absl::ToInt64Nanoseconds(spec.delay);
  path.keeps_order = spec.rate.has_value() && spec.jitter_order == JitterOrder::kKeep;
  if (path.station >= 0) {
    std::vector<DroppedFrame> dropped;
    stations_[path.station].stage.Change(PathQueue(topology, spec), dropped);
    Drop(dropped, path.station, 0);
  } else if (IsServedByEvents(spec)) {
    path.station = static_cast<int>(stations_.size());
    stations_.push_back({QueuedStage(PathQueue(topology, spec)), Step::kDeliver, -1});
    stations_.back().stage.HoldUntil(path.stage.free_ns());
  }
}

std::vector<LineCounters> TapNetwork::line_counters() const {
  std::vector<LineCounters> all;
  for (const AccessLine& line : lines_) {
    all.push_back(line.up.counters);
    all.push_back(line.down.counters);
  }
  return all;
}

void TapNetwork::SetCarrier(int from, int to, Carrier carrier) {
  paths_[PathIndex(from, to)].carrier = carrier;
}

const PathCounters* TapNetwork::counters(int from, int to) const {
  const int index = PathIndex(from, to);
  return index < 0 ? nullptr : &paths_[index].counters;
}

}  // namespace longhaul
