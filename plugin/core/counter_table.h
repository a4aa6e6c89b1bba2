#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
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
    std::optional<TensorKind> kind;
    absl::Duration coding;
    bool on_device = false;
    bool crossed = false;  // without a transport
  };
  void Count(int peer, Direction direction, const Message& message);
  // Of a sent frame with that codec and kind.
  void CountNmse(int peer, std::string_view codec, std::optional<TensorKind> kind, double nmse);
  // A tensor that was to be encoded was too short for it.
  void CountShort(int64_t elements);

  std::vector<CrossingCounters> Read() const;
  // Elements of the longest of those, while nothing was encoded in either direction; 0: none, or
  // something was.
  int64_t LongestOfShort() const;
  std::vector<NmseSample> TakeNmse();

 private:
  // Kind: 0 none, else 1 + its value. Codec: empty for raw, so that this comes first.
  using Key = std::tuple<int, Direction, int, std::string>;
  CrossingCounters& Row(int peer, Direction direction, std::string_view codec,
                        std::optional<TensorKind> kind);

  mutable std::mutex mu_;
  std::map<Key, CrossingCounters> rows_;  // under mu_
  int64_t longest_of_short_ = 0;          // under mu_
  std::vector<NmseSample> samples_;       // under mu_
  const int rank_;
};

}  // namespace longhaul
