#include "experiments/spec/link_time.h"

#include <algorithm>
#include <cmath>

#include "plugin/swarm/transfer_time.h"

namespace longhaul {

PipelineCosts::Wire WireOf(const BoundaryLink& link) {
  return {.busy_s = 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s,
          .delay_s = link.one_way_delay_s};
}

PipelineCosts::Wire ColdWireOf(const BoundaryLink& link, double connections) {
  PipelineCosts::Wire wire = WireOf(link);
  const double bytes_per_s = link.rate_bit_per_s / 8;
  Transfer transfer{.bytes = kWireFactor * link.message_bytes,
                    .sources = 1,
                    .up_bytes_per_s = bytes_per_s,
                    .down_bytes_per_s = bytes_per_s,
                    .rtt = absl::Seconds(2 * link.one_way_delay_s)};
  transfer.round_trips_before_data = -0.5;  // pushed, not asked for
  transfer.first_window_bytes *= connections;
  const double cold_s = absl::ToDoubleSeconds(TransferTime(transfer));
  wire.cold_s = std::max(0.0, cold_s - wire.busy_s - wire.delay_s);
  return wire;
}

double MessageSeconds(const BoundaryLink& link) {
  const PipelineCosts::Wire wire = WireOf(link);
  return wire.busy_s + wire.delay_s;
}

double ColdMessageSeconds(const BoundaryLink& link, double connections) {
  return MessageSeconds(link) + ColdWireOf(link, connections).cold_s;
}

}  // namespace longhaul
