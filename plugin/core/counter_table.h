#pragma once

#include <mutex>
#include <string_view>
#include <vector>

#include "plugin/core/group.h"
#include "plugin/core/packet.h"

namespace longhaul {

enum class Direction { kSent, kReceived };

// The CrossingCounters of one group. Written on the strand, read anywhere. Thread safe.
class CounterTable {
 public:
  // `rank` of `size`: rows for every other rank, both directions.
  CounterTable(int rank, int size);

  // A message has gone or been delivered. `message_bytes` counts its packet headers too; `crc` is
  // that of its payload; `coding` the time spent in Encode or Decode.
  struct Message {
    const PacketHeader& header;
    int64_t message_bytes;
    uint32_t crc;
    std::string_view codec;  // empty: raw
    absl::Duration coding;
    bool on_device = false;
  };
  void Count(int peer, Direction direction, const Message& message);
  void CountNmse(int peer, double nmse);

  std::vector<CrossingCounters> Read() const;
  std::vector<NmseSample> TakeNmse();

 private:
  CrossingCounters& Row(int peer, Direction direction);

  mutable std::mutex mu_;
  std::vector<CrossingCounters> rows_;  // under mu_: [peer][direction]
  std::vector<NmseSample> samples_;     // under mu_
  const int rank_;
};

}  // namespace longhaul
