#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "experiments/record/count_events.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// A frame of a TCP stream carries so many bytes of headers: Ethernet, IP, TCP and its timestamps;
// an acknowledgement is such a frame without payload.
constexpr int64_t kHeadersOfFrameBytes = 66;
// Payload of a full frame at MTU 1500.
constexpr int64_t kSegmentBytes = 1448;
// UCX puts 13 bytes before each of our packets; 1.13.1 cuts at 64 kB, with more before each piece.
constexpr int64_t kTransportPacketBytes = 13;
constexpr int64_t kTransportPieceBytes = 29;
constexpr int64_t kTransportPiece = 64 << 10;

// What was counted while the workers trained, between two moments at which all of them waited.
struct WireCounts {
  std::map<std::pair<int64_t, int64_t>, PathCount> paths;  // by (source, destination)
  std::map<int64_t, NodeCount> nodes;
  void Observe(const nlohmann::json& event);  // "path" and "node"
};

// Of a path: how far the counted bytes may be from the accounted ones. The fixed part is for what
// no count tells: keep-alives of the connections, a heartbeat more or less, options of TCP. Each
// drop may cost a frame that is sent again.
constexpr double kWireTolerance = 0.005;
constexpr int64_t kWireAllowanceBytes = 4096;

// Which part of a run's spec the counted bytes are of.
struct WirePart {
  int64_t restored = 0;  // finished steps of another run's checkpoint with which this one began
  // Groups that were lost, joined or left meanwhile. What a lost one had sent since its last outer
  // step is not counted, nor what a swarm carried, so the paths from and to them are judged for
  // bytes that lack alone, and so are those of node 0 where groups may come and go: the store is
  // there, which everybody asks.
  std::set<int64_t> came_or_went = {};
  // Outer exchanges that were made again, because somebody was lost in them: what was handed over
  // in one of them need not have crossed.
  int64_t repeated_exchanges = 0;
  std::vector<CodecSwitchRow> switches = {};  // what the boundaries' policy chose, of the whole run
  bool as_planned = true;  // false: groups came or went in the run, so nothing is predicted
};

// Fills in, per crossing, what was counted (kernel_tx_bytes on the path; kernel_rx_bytes at the
// receiver's interface, its headers once per MTU frame, shared out to its sources as the path
// counters say) and the bytes predicted: the codec's frames for this shape, our message headers and
// the transport's, heartbeats, and 66 bytes for every frame that the path counted. How TCP cuts a
// stream into frames and acknowledges it hangs on its timing, so frames are counted, not guessed;
// without a count they are taken to be full, with an acknowledgement for every two of the opposite
// crossing. Of a part of a run (a checkpoint, a resumed rest) the prediction is for the whole run
// all the same, by that part's frames per byte. Call once.
// FailedPrecondition: more than the bounds above between the counted bytes and those that the
// sender handed over, or between an interface and the emulator; every such path with its figures.
absl::Status FillWireBytes(const RunSpec& spec, const WireCounts& counts,
                           std::vector<CrossingRow>& crossings, const WirePart& part = {});

// "24 of 30: ..."; "" where all paths that were counted are judged both ways.
std::string JudgedForLackAlone(const RunSpec& spec, const WireCounts& counts,
                               const std::vector<CrossingRow>& crossings, const WirePart& part);

}  // namespace longhaul
