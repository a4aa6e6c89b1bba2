#include "netem/emulators/tap_network.h"

#include <algorithm>
#include <array>
#include <functional>

#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr BitsPerSecond kSlow = Mbit(50);  // a 64 kB frame takes 10 ms here
constexpr int64_t kShortQueuePackets = 128;

StageSpec AccessStage(const Topology& topology, int node, BitsPerSecond rate) {
  return {rate, 0, AccessLimitPackets(topology, node, rate) * FrameBytes(topology.mtu)};
}

StageSpec PathStage(const Topology& topology, const PathSpec& path) {
  return {path.rate, absl::ToInt64Nanoseconds(path.delay),
          PathLimitPackets(topology, path) * FrameBytes(topology.mtu)};
}

}  // namespace

TapNetwork::TapNetwork(const Topology& topology, uint64_t seed)
    : num_nodes_(static_cast<int>(topology.nodes.size())),
      path_of_pair_(topology.nodes.size() * topology.nodes.size(), -1) {
  std::vector<int> place(LineCount(topology), -1);  // of a line in lines_
  const auto place_of = [&](const AccessSpec* access, int node) {
    if (access == nullptr) return -1;
    int& at = place[*LineOf(topology, node)];
    if (at < 0) {
      at = static_cast<int>(lines_.size());
      lines_.push_back({LinkStage(AccessStage(topology, node, access->up)),
                        LinkStage(AccessStage(topology, node, access->down))});
    }
    return at;
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
  }
}

int TapNetwork::PathIndex(int from, int to) const {
  const bool known = from >= 0 && from < num_nodes_ && to >= 0 && to < num_nodes_;
  return known ? path_of_pair_[from * num_nodes_ + to] : -1;
}

TapNetwork::Arrival TapNetwork::Arrive(int64_t now_ns, int from, int to, uint32_t handle,
                                       int64_t wire_bytes, int64_t segments, int64_t device_bytes,
                                       bool copy) {
  const int index = PathIndex(from, to);
  if (index < 0) {
    ++unroutable_drops_;
    return {};
  }
  Path& path = paths_[index];
  int64_t at_path_ns = now_ns;
  if (path.uplink >= 0) {
    const auto left = lines_[path.uplink].up.Admit(now_ns, wire_bytes);
    if (!left) {
      path.counters.drops_queue += segments;
      return {};
    }
    at_path_ns = *left;
  }
  const Impairment::Fate fate = path.impairment.Next();
  Arrival arrival{.taken = false, .duplicated = fate.duplicated && !copy, .flip = fate.flip};
  if (fate.lost || path.carrier == Carrier::kDown) {
    path.counters.drops_loss += segments;
    // As netem: lost and duplicated is one frame that arrives.
    arrival.taken = false;
    arrival.duplicated = arrival.duplicated && path.carrier == Carrier::kUp;
    return arrival;
  }
  const auto due = fate.reordered ? std::optional<int64_t>(at_path_ns)
                                  : path.stage.Admit(at_path_ns, wire_bytes, fate.jitter_ns);
  if (!due) {
    path.counters.drops_queue += segments;
    return arrival;
  }
  const bool no_downlink = path.downlink < 0;
  path.counters.held_bytes += wire_bytes;
  Push({*due, order_++, wire_bytes, segments, device_bytes > 0 ? device_bytes : wire_bytes, handle,
        index, no_downlink});
  arrival.taken = true;
  return arrival;
}

std::optional<TapNetwork::Output> TapNetwork::Next(int64_t now_ns) {
  while (!events_.empty() && events_.front().due_ns <= now_ns) {
    Event event = Pop();
    Path& path = paths_[event.path];
    if (event.passed_downlink) {
      path.counters.held_bytes -= event.wire_bytes;
      path.counters.packets += event.segments;
      path.counters.bytes += event.wire_bytes;
      path.counters.device_bytes += event.device_bytes;
      return Output{event.handle, path.to, true, event.due_ns};
    }
    // Sources share the downlink, so frames enter it in the order in which their paths end.
    const auto left = lines_[path.downlink].down.Admit(event.due_ns, event.wire_bytes);
    if (!left) {
      path.counters.held_bytes -= event.wire_bytes;
      path.counters.drops_queue += event.segments;
      return Output{event.handle, path.to, false, event.due_ns};
    }
    event.due_ns = *left;
    event.order = order_++;
    event.passed_downlink = true;
    Push(event);
  }
  return std::nullopt;
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

void TapNetwork::Push(const Event& event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

TapNetwork::Event TapNetwork::Pop() {
  std::pop_heap(events_.begin(), events_.end(), std::greater<>());
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

void TapNetwork::ChangePath(const Topology& topology, const PathSpec& spec) {
  Path& path = paths_[PathIndex(spec.from, spec.to)];
  path.stage.Change(PathStage(topology, spec));
  path.impairment.Change(ImpairmentOf(spec));
}

void TapNetwork::SetCarrier(int from, int to, Carrier carrier) {
  paths_[PathIndex(from, to)].carrier = carrier;
}

const PathCounters* TapNetwork::counters(int from, int to) const {
  const int index = PathIndex(from, to);
  return index < 0 ? nullptr : &paths_[index].counters;
}

bool NeedsMtuFrames(const Topology& topology, int node) {
  const auto slow = [&](BitsPerSecond rate, int64_t limit) {
    return rate < kSlow || limit < kShortQueuePackets;
  };
  const auto slow_access = [&](int i, BitsPerSecond rate) {
    return slow(rate, AccessLimitPackets(topology, i, rate));
  };
  return std::any_of(topology.paths.begin(), topology.paths.end(), [&](const PathSpec& path) {
    if (path.from != node) return false;
    const AccessSpec* up = UplinkOf(topology, path);
    const AccessSpec* down = DownlinkOf(topology, path);
    return MeanLoss(path) > 0 || path.reorder_prob > 0 || path.duplicate_prob > 0 ||
           (path.rate && slow(*path.rate, PathLimitPackets(topology, path))) ||
           (up != nullptr && slow_access(node, up->up)) ||
           (down != nullptr && slow_access(path.to, down->down));
  });
}

}  // namespace longhaul
