#pragma once

#include <thread>

#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// Exit status of a lab that ended because the command, its recorder, stood still.
constexpr int kExitCommandStoodStill = 121;

// The lab's look at the command that records it, from a thread of its own. A command that is
// stopped reads no events: the pipe fills, every worker blocks in it, and links and workers would
// be held for as long as nobody lets the command go on. After `deadline` of that this process ends
// with kExitCommandStoodStill, and the kernel takes the lab with it.
class CommandWatch {
 public:
  // `stat_fd`: /proc/self/stat opened in the command; -1: nothing is watched. Not owned.
  CommandWatch(int stat_fd, absl::Duration deadline);
  ~CommandWatch();
  CommandWatch(const CommandWatch&) = delete;
  CommandWatch& operator=(const CommandWatch&) = delete;

 private:
  void Main();

  const int stat_fd_;
  const absl::Duration deadline_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace longhaul
