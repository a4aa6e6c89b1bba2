#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Wire bytes over payload bytes of a bulk TCP stream at MTU 1500: a 1514-byte frame carries 1448.
constexpr double kWirePerPayload = 1514.0 / 1448.0;
// An acknowledgement: Ethernet, IP and TCP headers with the timestamp option.
constexpr int64_t kAckBytes = 66;

// Fills in, per crossing, the bytes predicted for its path before anything ran (frame size of the
// codec for this shape, our message header, TCP/IP and Ethernet headers, and the acknowledgements
// of the opposite crossing, one per two segments), and the kernel's count of that path.
// `path_bytes`: by (source rank, destination rank), Ethernet level, while training; empty: no
// links.
void FillWireBytes(const RunSpec& spec,
                   const std::map<std::pair<int64_t, int64_t>, int64_t>& path_bytes,
                   std::vector<CrossingRow>& crossings);

}  // namespace longhaul
