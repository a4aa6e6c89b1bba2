#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <libtorrent/alert.hpp>
#include <libtorrent/session.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/swarm/swarm.h"

namespace longhaul {

// A libtorrent session that knows nobody but the members and says where it listens. Its owner's
// thread sleeps in WaitUntil; alerts and Wake end the sleep.
class SwarmSession {
 public:
  // `members`: all that may connect or be connected to. FailedPrecondition: the address cannot be
  // listened on, and why. InvalidArgument: figures out of bounds.
  static absl::StatusOr<std::unique_ptr<SwarmSession>> Open(
      const SwarmOptions& options, const std::vector<std::string>& members);
  ~SwarmSession();
  SwarmSession(const SwarmSession&) = delete;
  SwarmSession& operator=(const SwarmSession&) = delete;

  libtorrent::session& libtorrent() { return session_; }
  SwarmAddress address() const { return address_; }

  void Wake();  // any thread
  void WaitUntil(absl::Duration until);
  // What has happened; valid until the next call.
  std::vector<libtorrent::alert*> Alerts();
  // Counts a connection that was turned away, and tells of its address; once each, of the first
  // kMostNamed.
  void NoticeBlocked(const libtorrent::alert& alert);
  void Notice(const std::string& line) const;
  int64_t turned_away() const { return turned_away_.load(); }  // connections; any thread

 private:
  SwarmSession(const SwarmOptions& options, libtorrent::session_params params, int wake_fd);
  absl::Status AwaitListening();

  const SwarmOptions options_;
  const int wake_fd_;  // an eventfd
  libtorrent::session session_;
  SwarmAddress address_;
  std::vector<std::string> blocked_;
  std::atomic<int64_t> turned_away_{0};
};

}  // namespace longhaul
