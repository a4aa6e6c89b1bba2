#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "plugin/core/counter_table.h"

namespace longhaul {

// The last operations of one group with each of its ranks, for whoever asks why it hangs: 32 a
// rank, newest last. Thread safe.
class History {
 public:
  static constexpr size_t kKept = 32;  // of each rank

  // `title`: "group 'pp' rank 1 of 4".
  History(std::string title, int size);

  struct Operation {
    Direction direction;
    std::string_view what;  // "send", "recv" or a collective's name; a literal
    int tag;                // of a collective its number
    uint64_t bytes;
    absl::Duration began = absl::ZeroDuration();  // of the node's clock, like `ended`
    absl::Duration ended = absl::InfiniteDuration();
    bool failed = false;
  };
  // Answers its number, for End. `peer`: a group rank, or kAnySource.
  uint64_t Begin(int peer, Operation operation, absl::Duration now);
  void End(int peer, uint64_t number, bool ok, absl::Duration now);

  // One line an operation: "recv  tag 0  4096 bytes  waiting  began 5s ago".
  std::string Text(absl::Duration now) const;

  // Writes Text into a file of its own under $TMPDIR or /tmp, the same for a group's whole life, and
  // answers "; the last operations with each rank are in PATH"; where it cannot, says so instead.
  // Calls that come within 100 ms of one another write once.
  std::string Written(absl::Duration now);

 private:
  struct Ring {
    std::array<Operation, kKept> kept;
    uint64_t begun = 0;  // ever; number n lies at n modulo kKept
  };
  Ring& RingOf(int peer);

  const std::string title_;
  mutable std::mutex mu_;
  std::vector<Ring> rings_;  // under mu_; by rank, the last: any
  std::string path_;         // under mu_, like the next
  absl::Duration written_ = -absl::InfiniteDuration();
};

}  // namespace longhaul
