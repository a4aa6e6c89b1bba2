#include "experiments/spec/link_time.h"

#include "plugin/swarm/transfer_time.h"

namespace longhaul {

PipelineCosts::Wire WireOf(const BoundaryLink& link) {
  return {.busy_s = 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s,
          .delay_s = link.one_way_delay_s};
}

double MessageSeconds(const BoundaryLink& link) {
  const PipelineCosts::Wire wire = WireOf(link);
  return wire.busy_s + wire.delay_s;
}

double ColdMessageSeconds(const BoundaryLink& link, double connections) {
  const double bytes_per_s = link.rate_bit_per_s / 8;
  Transfer transfer{.bytes = kWireFactor * link.message_bytes,
                    .sources = 1,
                    .up_bytes_per_s = bytes_per_s,
                    .down_bytes_per_s = bytes_per_s,
                    .rtt = absl::Seconds(2 * link.one_way_delay_s)};
  transfer.round_trips_before_data = -0.5;  // pushed, not asked for
  transfer.first_window_bytes *= connections;
  return absl::ToDoubleSeconds(TransferTime(transfer));
}

}  // namespace longhaul
