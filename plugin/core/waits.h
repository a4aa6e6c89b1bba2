#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"

namespace longhaul {

// An operation of one rank that has waited for another for three quarters of its time.
struct LongWait {
  int rank;          // that it waits for
  std::string what;  // "recv, tag 3", "allreduce 12"
  absl::Duration deadline;
};

// When an operation that ends at `deadline` has waited long, or its deadline if that is past.
inline absl::Duration NextLook(absl::Duration deadline, absl::Duration timeout,
                               absl::Duration now) {
  if (deadline == absl::InfiniteDuration()) return deadline;
  const absl::Duration look = deadline - timeout / 4;
  return look > now ? look : deadline;
}

// What the other ranks of a group have said of their long waits, so that the one who is stuck first
// is named by all who wait for it, through whatever others. On the strand.
class WaitTable {
 public:
  void Said(int rank, int waits_for, std::string what, absl::Duration now);

  // Who `rank` waits for, and so on: ": rank 1 waits for rank 2 (recv, tag 3), as it said 1.2s ago".
  // Empty: it has said nothing in the last `fresh`. `self` is who asks.
  std::string Chain(int rank, int self, absl::Duration fresh, absl::Duration now) const;

 private:
  struct Wait {
    int waits_for;
    std::string what;
    absl::Duration said;
  };
  std::map<int, Wait> waits_;
};

}  // namespace longhaul
