#pragma once

#include <cstdint>
#include <map>
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
constexpr int64_t kFrameHeaderBytes = 66;
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
  void See(const nlohmann::json& event);  // "path" and "node"
};

// Of a path: how far the counted bytes may be from the accounted ones. The fixed part is for what
// no count tells: keep-alives of the connections, a heartbeat more or less, options of TCP. Each
// drop may cost a frame that is sent again.
constexpr double kWireTolerance = 0.005;
constexpr int64_t kWireAllowanceBytes = 4096;

// Fills in, per crossing, what was counted (kernel_tx_bytes on the path; kernel_rx_bytes at the
// receiver's interface, its headers once per MTU frame, shared out to its sources as the path
// counters say) and the bytes predicted: the codec's frames for this shape, our message headers and
// the transport's, heartbeats, and 66 bytes for every frame that the path counted. How TCP cuts a
// stream into frames and acknowledges it hangs on its timing, so frames are counted, not guessed;
// without a count they are taken to be full, with an acknowledgement for every two of the opposite
// crossing. Of a part of a run (a checkpoint, a resumed rest) the prediction is for the whole run
// all the same, by that part's frames per byte; `restored`: the finished steps with which a run
// began that goes on from another one's checkpoint are not its own. Call once.
// FailedPrecondition: more than the bounds above between the counted bytes and those that the
// sender handed over, or between an interface and the emulator; every such path with its figures.
absl::Status FillWireBytes(const RunSpec& spec, const WireCounts& counts,
                           std::vector<CrossingRow>& crossings, int64_t restored = 0);

}  // namespace longhaul
