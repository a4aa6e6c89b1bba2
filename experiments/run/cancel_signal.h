#pragma once

#include "absl/status/statusor.h"

namespace longhaul {

// Turns SIGINT, SIGTERM and SIGHUP (unless it is ignored: nohup) into a readable descriptor for the
// lifetime of the object, so that a command waits for them in poll() beside everything else. Make
// it before other threads exist.
class CancelSignal {
 public:
  CancelSignal();
  ~CancelSignal();
  CancelSignal(const CancelSignal&) = delete;
  CancelSignal& operator=(const CancelSignal&) = delete;
  int fd() const { return fd_; }
  // The signal that has come, which fd() then no longer tells; 0: none.
  int Take() const;

 private:
  int fd_;
};

// Exit status of a command that a signal ended, as shells expect it of SIGINT.
constexpr int kExitCancelled = 130;

// Exit status of one run of a campaign that was stopped and can go on (EX_TEMPFAIL of sysexits.h):
// a scheduler may put it into its queue again.
constexpr int kExitAgain = 75;

}  // namespace longhaul
