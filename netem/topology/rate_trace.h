#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology/units.h"

namespace longhaul {

// A link whose rate changes as one that was recorded: at each time it may
// deliver 1500 bytes of IP packets, and what is not used then is lost. After its length the trace
// begins anew. A plain value that is never changed once it is read.
struct RateTrace {
  std::string file;                        // where it was read from; for records
  std::vector<uint32_t> opportunities_ms;  // not empty, ascending, equal ones allowed, last > 0
  uint32_t length_ms = 0;                  // not before the last opportunity; of mahimahi's, it
};
inline constexpr int64_t kOpportunityBytes = 1500;  // IP header included, Ethernet header not

// mahimahi's format: one whole number of ms a line. Or samples, where the first line has a comma: it
// names the units of both columns, "seconds, Mbit/s" or "time_ms,rate_kbps"; without them nobody can
// know what 5000 is. The first time is 0, a rate holds until the next time, the last one as long as
// the one before it (one sample alone: a second).
// Rates are at the Ethernet level, as all are: an opportunity is a frame of 1514 bytes.
// InvalidArgument, "FILE:LINE: ...": no units, no number, a time that is not after the one before it (of ms:
// smaller) or larger than a day, no line at all, a last time of 0; a rate below 0, above 1,000,000
// Mbit/s, or too low for a single frame in all; more than 20 million opportunities. NotFound and
// InvalidArgument without a line: no regular file, or one of more than 32 MiB.
absl::StatusOr<std::shared_ptr<const RateTrace>> ReadRateTrace(const std::string& file);
absl::StatusOr<std::shared_ptr<const RateTrace>> ParseRateTrace(std::string_view text,
                                                                const std::string& file);

absl::Duration LengthOf(const RateTrace& trace);

// Rates at the Ethernet level, for full frames of the MTU: (mtu + 14) / mtu of what the
// opportunities hold.
BitsPerSecond MeanRate(const RateTrace& trace, int mtu);

// The least and the most that any `window` of the endless trace can deliver, as rates. What was
// measured for so long is to be between them. An opportunity on an edge counts for the most and not
// for the least: a window of the trace's length is one opportunity either way from the mean.
struct RateRange {
  BitsPerSecond least, most;
};
RateRange RatesWithin(const RateTrace& trace, int mtu, absl::Duration window);

// The longest time between two opportunities: what a frame on an idle link waits at most.
absl::Duration LongestWait(const RateTrace& trace);

// When opportunity k = 0, 1, 2, .. comes, in ns from the trace's start, and the first one that
// comes after `ns`: a frame that is there at the very moment of one has missed it, as in mahimahi.
int64_t OpportunityNs(const RateTrace& trace, int64_t k);
int64_t FirstOpportunityAfter(const RateTrace& trace, int64_t ns);

}  // namespace longhaul
