#include "netem/tap_network.h"

#include <algorithm>

#include "netem/queue_limits.h"

namespace longhaul {
namespace {

constexpr BitsPerSecond kSlow = Mbit(50);  // a 64 kB frame takes 10 ms here
constexpr int64_t kShortQueuePackets = 128;

StageSpec Access(const Topology& topology, int node, BitsPerSecond rate) {
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
  for (int i = 0; i < num_nodes_; ++i) {
    Node node;
    if (const auto& access = topology.nodes[i].access; access) {
      node.uplink.emplace(Access(topology, i, access->up));
      node.downlink.emplace(Access(topology, i, access->down));
    }
    nodes_.push_back(std::move(node));
  }
  for (const PathSpec& path : topology.paths) {
    const ImpairmentSpec impairment{path.loss_prob, absl::ToInt64Nanoseconds(path.jitter)};
    path_of_pair_[path.from * num_nodes_ + path.to] = static_cast<int>(paths_.size());
    paths_.push_back({path.from,
                      path.to,
                      LinkStage(PathStage(topology, path)),
                      Impairment(impairment, seed, path.from, path.to),
                      {}});
  }
}

int TapNetwork::PathIndex(int from, int to) const {
  const bool known = from >= 0 && from < num_nodes_ && to >= 0 && to < num_nodes_;
  return known ? path_of_pair_[from * num_nodes_ + to] : -1;
}

bool TapNetwork::Arrive(int64_t now_ns, int from, int to, uint32_t handle, int64_t wire_bytes,
                        int64_t segments) {
  const int index = PathIndex(from, to);
  if (index < 0) {
    ++unroutable_drops_;
    return false;
  }
  Path& path = paths_[index];
  int64_t at_path_ns = now_ns;
  if (auto& uplink = nodes_[from].uplink; uplink) {
    const auto left = uplink->Admit(now_ns, wire_bytes);
    if (!left) {
      path.counters.drops_queue += segments;
      return false;
    }
    at_path_ns = *left;
  }
  const Impairment::Fate fate = path.impairment.Next();
  if (fate.lost) {
    path.counters.drops_loss += segments;
    return false;
  }
  const auto due = path.stage.Admit(at_path_ns, wire_bytes, fate.jitter_ns);
  if (!due) {
    path.counters.drops_queue += segments;
    return false;
  }
  const bool no_downlink = !nodes_[to].downlink;
  events_.push({*due, order_++, wire_bytes, segments, handle, index, no_downlink});
  return true;
}

std::optional<TapNetwork::Output> TapNetwork::Next(int64_t now_ns) {
  while (!events_.empty() && events_.top().due_ns <= now_ns) {
    Event event = events_.top();
    events_.pop();
    Path& path = paths_[event.path];
    if (event.passed_downlink) {
      path.counters.packets += event.segments;
      path.counters.bytes += event.wire_bytes;
      return Output{event.handle, path.to, true, event.due_ns};
    }
    // Sources share the downlink, so frames enter it in the order in which their paths end.
    const auto left = nodes_[path.to].downlink->Admit(event.due_ns, event.wire_bytes);
    if (!left) {
      path.counters.drops_queue += event.segments;
      return Output{event.handle, path.to, false, event.due_ns};
    }
    event.due_ns = *left;
    event.order = order_++;
    event.passed_downlink = true;
    events_.push(event);
  }
  return std::nullopt;
}

std::optional<int64_t> TapNetwork::next_due_ns() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().due_ns;
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
  const auto& own = topology.nodes[node].access;
  if (own && slow_access(node, own->up)) return true;
  return std::any_of(topology.paths.begin(), topology.paths.end(), [&](const PathSpec& path) {
    if (path.from != node) return false;
    const auto& far = topology.nodes[path.to].access;
    return path.loss_prob > 0 ||
           (path.rate && slow(*path.rate, PathLimitPackets(topology, path))) ||
           (far && slow_access(path.to, far->down));
  });
}

}  // namespace longhaul
