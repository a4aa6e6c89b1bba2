#include "plugin/swarm/transfer_time.h"

#include <algorithm>

namespace longhaul {

absl::Duration TransferTime(const Transfer& t) {
  const double share = t.bytes / t.sources;
  const double rate = std::min(t.up_bytes_per_s, t.down_bytes_per_s / t.sources);
  const double rtt_s = absl::ToDoubleSeconds(t.rtt);
  double window = t.first_window_bytes, sent = 0, rounds = 0;
  // A round whose window does not fill the path lasts a round trip, whatever the rate.
  while (window < rate * rtt_s && sent + window < share) {
    sent += window;
    window *= 2;
    rounds += 1;
  }
  const double rest_s = (share - sent) / rate;
  return absl::Seconds((t.round_trips_before_data + rounds + 1) * rtt_s + rest_s);
}

}  // namespace longhaul
