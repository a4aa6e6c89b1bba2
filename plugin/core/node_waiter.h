#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/core/node_core.h"

namespace longhaul {

// Somebody outside the strand who waits for peers to be ready.
struct NodeCore::Waiter {
  std::vector<std::pair<size_t, Peer*>> peers;  // with their ranks; on the strand
  absl::Duration deadline;

  static absl::Status Named(size_t rank, const absl::Status& why);

  // On the strand: true when all are ready; an error when that cannot be any more.
  absl::StatusOr<bool> Check(absl::Duration now) const;

  void Finish(absl::Status status);  // on the strand
  absl::Status Wait();               // any other thread

 private:
  std::mutex mu_;
  std::condition_variable finished_;
  bool done_ = false;    // under mu_
  absl::Status status_;  // under mu_
};

}  // namespace longhaul
