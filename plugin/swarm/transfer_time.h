#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace longhaul {

// The closed form of a transfer from several sources to one fetcher. Rates are goodput.
struct Transfer {
  double bytes;
  int sources;
  double up_bytes_per_s;    // of each source, or of its path
  double down_bytes_per_s;  // of the fetcher
  absl::Duration rtt;
  double round_trips_before_data = 0;  // connect and agree, before the first byte is sent
  double first_window_bytes = 14'480;  // ten segments of 1448: Linux
};

// Round trips between "connect" and the request for the first block: TCP's own, the handshakes,
// interest and leave. The data then takes one more, which TransferTime counts.
inline constexpr double kSwarmRoundTrips = 3;
// A plain copy: TCP's own; the sender sends unasked.
inline constexpr double kCopyRoundTrips = 1;

// Each source sends bytes / sources at r = min(up, down / sources). Its window starts at w bytes
// and doubles each round trip until it holds r x rtt:
//   rounds k = smallest with w 2^k >= r rtt;  sent in them: w (2^k - 1)
//   time = before + rtt + k rtt + rest / r       (rtt: the request's way and the last byte's)
// or, where all fits into slow start, the rounds that it takes. No loss, no queue, no computing.
absl::Duration TransferTime(const Transfer& transfer);

}  // namespace longhaul
