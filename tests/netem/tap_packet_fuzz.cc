// The packet path of the tap emulator on whatever a node may send: frames of any bytes are parsed,
// admitted, delayed and handed back, each handle exactly once and in order of time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "netem/emulators/frame.h"
#include "netem/emulators/tap_network.h"
#include "netem/nodes/addressing.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

constexpr int kNodes = 5;  // 3 and 4 behind one line

Topology MakeLinks() {
  Topology topology = *UniformTopology("worst-case", kNodes);
  topology.nodes[1].access = AccessSpec{.up = Mbit(5), .down = Mbit(1)};
  topology.sites = {{"site", AccessSpec{.up = Mbit(4), .down = Mbit(2)}}};
  topology.sites[0].access.aqm = {.kind = QueueManagement::Kind::kFqCodel, .ecn = true};
  topology.paths[4].aqm.kind = QueueManagement::Kind::kCodel;
  topology.paths[5].jitter_order = JitterOrder::kFree;
  topology.paths[5].jitter = absl::Milliseconds(50);
  SetRateTrace(topology.paths[6], *ParseRateTrace("3\n3\n50\n", "fuzz"), topology.mtu);
  topology.nodes[3].site = topology.nodes[4].site = 0;
  topology.paths[0].jitter = absl::Milliseconds(20);
  topology.paths[0].loss_prob = 0.2;
  topology.paths[1].rate.reset();
  topology.paths[1].jitter = absl::Milliseconds(500);
  topology.paths[2].burst_loss = BurstLoss{.to_bad = 0.3, .to_good = 0.5};
  topology.paths[3].queue = QueueDepth{QueueDepth::Unit::kPackets, 1};
  topology.paths.pop_back();
  return topology;
}

const Topology& Links() {
  static const Topology links = MakeLinks();
  return links;
}

class Run {
 public:
  explicit Run(uint64_t seed) : network_(Links(), seed) {}

  void Send(int port, std::span<const uint8_t> bytes) {
    // A read of the device: the vnet header is always there, the rest is what came.
    // Its own allocation, so that ASan sees a read past its end.
    std::vector<std::byte> frame(std::max(bytes.size(), kVnetHeaderBytes + kEthernetHeaderBytes));
    if (!bytes.empty()) memcpy(frame.data(), bytes.data(), bytes.size());
    const auto facts = ParseFrame(frame, frame.size());
    if (!facts) {
      network_.CountUnroutable();
      return;
    }
    if (facts->segments < 1 || facts->wire_bytes < 1) __builtin_trap();
    const int to = NodeOfAddress(facts->destination);
    if (network_.Arrive(now_ns_, port, to, next_, facts->wire_bytes, facts->segments, 0, false,
                        {facts->flow, facts->ecn_capable})) {
      ++inside_;
      state_.push_back(State::kInside);
      if (to < 0 || to >= kNodes) __builtin_trap();
      MarkCongestion(frame);
      RewriteMacs(frame, MacOf(MacKind::kNode, to), MacOf(MacKind::kLan, to));
    } else {
      state_.push_back(State::kOut);
    }
    ++next_;
  }

  void Wait(int64_t ns) {
    now_ns_ += ns;
    while (const auto output = network_.Next(now_ns_)) {
      if (output->due_ns < last_due_ns_ || output->due_ns > now_ns_) __builtin_trap();
      last_due_ns_ = output->due_ns;
      if (output->handle >= next_ || state_[output->handle] != State::kInside) __builtin_trap();
      state_[output->handle] = State::kOut;
      --inside_;
    }
    const auto next_ns = network_.next_due_ns();
    if (network_.next_due_after(now_ns_) != next_ns) __builtin_trap();
    if (next_ns && network_.next_due_after(*next_ns).value_or(*next_ns + 1) <= *next_ns) {
      __builtin_trap();
    }
  }

  // After an hour everything has left.
  void End() {
    Wait(3'600'000'000'000);
    if (inside_ != 0 || network_.next_due_ns()) __builtin_trap();
    for (int from = 0; from < kNodes; ++from) {
      for (int to = 0; to < kNodes; ++to) {
        const PathCounters* counters = network_.counters(from, to);
        if (counters != nullptr && counters->held_bytes != 0) __builtin_trap();
      }
    }
  }

 private:
  TapNetwork network_;
  int64_t now_ns_ = 0, last_due_ns_ = 0;
  uint32_t next_ = 0;
  enum class State : uint8_t { kInside, kOut };
  std::vector<State> state_;  // of each handle
  int64_t inside_ = 0;
};

// Half of the frames get addresses of nodes, or no input would ever reach a link.
std::vector<uint8_t> MaybeAddressed(std::span<const uint8_t> bytes, uint8_t choice) {
  std::vector<uint8_t> frame(bytes.begin(), bytes.end());
  constexpr size_t kType = kVnetHeaderBytes + kEthernetHeaderBytes - 2;
  if ((choice & 1) == 0 || frame.size() < kType + 22) return frame;
  if ((choice & 0x80) != 0) {  // IPv6
    if (frame.size() < kType + 42) return frame;
    const uint8_t type[] = {0x86, 0xdd, 0x60};
    memcpy(&frame[kType], type, sizeof type);
    if ((choice & 2) != 0) frame[1] = 4;
    memcpy(&frame[kType + 2 + 24], kNodePrefix6.data(), kNodePrefix6.size());
    const uint8_t to[] = {10, 0, 0, static_cast<uint8_t>(2 + (choice >> 2) % kNodes)};
    memcpy(&frame[kType + 2 + 36], to, sizeof to);
    return frame;
  }
  const uint8_t fixed[] = {0x08, 0x00, 0x45};
  memcpy(&frame[kType], fixed, sizeof fixed);
  if ((choice & 2) != 0) frame[1] = 1;  // TCP of IPv4, to be cut
  if ((choice & 2) != 0) frame[kType + 2 + 9] = 6;
  const uint8_t to[] = {10, 0, 0, static_cast<uint8_t>(2 + (choice >> 2) % kNodes)};
  memcpy(&frame[kType + 2 + 16], to, sizeof to);
  return frame;
}

}  // namespace
}  // namespace longhaul

// Input: a seed, then frames of {choice, port, wait, length}, bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 1) return 0;
  std::span<const uint8_t> rest(bytes, size);
  longhaul::Run run(rest[0]);
  rest = rest.subspan(1);
  while (rest.size() >= 4) {
    const uint8_t choice = rest[0], port = rest[1], wait = rest[2];
    const size_t length = std::min<size_t>(rest[3], rest.size() - 4);
    run.Send(port % longhaul::kNodes, longhaul::MaybeAddressed(rest.subspan(4, length), choice));
    run.Wait(int64_t{wait} * wait * 10'000);
    rest = rest.subspan(4 + length);
  }
  run.End();
  return 0;
}
