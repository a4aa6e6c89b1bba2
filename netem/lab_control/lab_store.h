#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// The folder in which this user's labs are known by name, mode 0700. Of a lab there are
//   NAME.lock   a write lock on it is held by the lab's daemon, for as long as that lives; its text
//               names the lab's outermost process, the keeper (lab.h, process_identity.h)
//   NAME.sock   where the daemon listens
//   NAME.log    what the daemon said on stderr
// The kernel drops the lock however the daemon ends, so a lab without a holder is dead and its
// files are rubbish, which up, down and list remove, with what is left of its processes: those
// whose keeper or init is stopped cannot end by themselves. Nothing hangs on a process id that may
// have been given to another process meanwhile. Thread safety: none.
class LabStore {
 public:
  // $XDG_RUNTIME_DIR/longhaul; without that variable /run/longhaul for root and
  // /tmp/longhaul-UID for others. PermissionDenied: the folder is not ours alone.
  static absl::StatusOr<LabStore> Open();
  static absl::StatusOr<LabStore> OpenAt(const std::string& folder);

  const std::string& folder() const { return folder_; }
  int folder_fd() const { return fd_.get(); }

  // Every name with a file here, dead or alive, sorted.
  std::vector<std::string> Names() const;

  // The daemon's process; nullopt: dead or unknown; 0: alive, as far as we can see:
  // in another PID namespace, or its file cannot be opened.
  std::optional<pid_t> Holder(const std::string& lab) const;

  // The daemon's part, after its fork: the name is this process's until it ends. AlreadyExists: it
  // has a holder.
  absl::Status Claim(const std::string& lab);
  absl::StatusOr<Fd> Listen(const std::string& lab) const;
  absl::StatusOr<Fd> OpenLog(const std::string& lab) const;

  // NotFound: no such lab. Unavailable: it is being built or ends just now.
  absl::StatusOr<Fd> Connect(const std::string& lab) const;

  // Ends the processes and removes the files of a dead lab; leaves one that lives alone.
  void RemoveIfDead(const std::string& lab) const;

  // Writes down whose keeper a process is: for the one that started it, once the lab stands.
  absl::Status NoteKeeper(const std::string& lab, pid_t keeper) const;
  // Its pidfd; not ok() where it is gone or was never written down.
  Fd Keeper(const std::string& lab) const;

  // SIGKILL to the daemon; the kernel then removes the lab. OK when there is no holder.
  absl::Status Kill(const std::string& lab) const;

 private:
  LabStore(std::string folder, Fd fd) : folder_(std::move(folder)), fd_(std::move(fd)) {}
  std::string folder_;
  Fd fd_;
  Fd claim_;
};

// Waits a moment for a lab's keeper, whose daemon is dead, and its init to end; then kills them,
// and the kernel with them everything inside. False: they live on.
bool EndLabProcesses(Fd keeper);

// InvalidArgument: want 1 to 48 letters, digits, '-', '_' and '.', the first no '.' or '-'.
absl::Status CheckLabName(const std::string& lab);

}  // namespace longhaul
