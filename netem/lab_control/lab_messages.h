#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What goes over a lab's socket: one request and one answer per connection, each a line of JSON.
//   {"do": "info" | "stats" | "probe" | "set" | "enter" | "down", ...}
//   {"ok": true, ...}    or    {"ok": false, "code": 5, "error": "..."}
// An answer to "enter" carries four descriptors: user, mount, PID and network namespace.
inline constexpr int kLabProtocol = 1;  // in "info"; a daemon may be older than its client

absl::Status SendLine(const Fd& socket, const nlohmann::json& message,
                      const std::vector<int>& fds = {});

struct Received {
  nlohmann::json message;
  std::vector<Fd> fds;
};
// DeadlineExceeded; Unavailable: the other end is gone; DataLoss: no JSON, or too long; Cancelled:
// `cancel_fd` became readable (-1: there is none).
absl::StatusOr<Received> ReceiveLine(const Fd& socket, absl::Duration timeout, int cancel_fd = -1);

nlohmann::json ErrorAnswer(const absl::Status& status);
absl::Status StatusOfAnswer(const nlohmann::json& answer);

}  // namespace longhaul
