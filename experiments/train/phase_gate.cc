#include "experiments/train/phase_gate.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

constexpr char kCheckpointPhase[] = "checkpoint ";

std::string CheckpointPhase(int64_t step) { return absl::StrCat(kCheckpointPhase, step); }

std::optional<int64_t> CheckpointStep(const std::string& phase) {
  int64_t step = 0;
  if (!phase.starts_with(kCheckpointPhase)) return std::nullopt;
  if (!absl::SimpleAtoi(phase.substr(sizeof kCheckpointPhase - 1), &step)) return std::nullopt;
  return step;
}

void PassPhase(int fd, const std::string& phase) {
  if (fd < 0) return;
  if (send(fd, phase.data(), phase.size(), MSG_NOSIGNAL) < 0) return;
  char answer = 0;
  while (read(fd, &answer, 1) < 0 && errno == EINTR) {
  }
}

PhaseGates::~PhaseGates() {
  for (const int fd : fds_) {
    if (fd >= 0) close(fd);
  }
}

absl::StatusOr<int> PhaseGates::AddWorker(bool anew) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("make a worker's gate: ", strerror(errno)));
  }
  if (anew) outside_.insert(fds_.size());
  fds_.push_back(ends[0]);
  return ends[1];
}

void PhaseGates::Pass(const std::string& phase) {
  waiting_.erase(phase);
  passed_.insert(phase);
  on_phase_(phase);
  for (size_t worker = 0; worker < fds_.size(); ++worker) {
    if (fds_[worker] >= 0 && !outside_.contains(worker)) (void)!write(fds_[worker], "", 1);
  }
}

// After somebody has gone: gates at which only it was missing.
void PhaseGates::LookAtAll() {
  const std::map<std::string, std::set<size_t>> waiting = waiting_;
  for (const auto& [phase, workers] : waiting) {
    if (workers.size() + outside_.size() >= fds_.size()) Pass(phase);
  }
}

void PhaseGates::Arrived(size_t worker) {
  char phase[64];
  const ssize_t n = recv(fds_[worker], phase, sizeof phase, MSG_DONTWAIT);
  if (n <= 0) {
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    close(fds_[worker]);  // the worker has ended; its exit status tells how
    fds_[worker] = -1;
    if (!may_end_) return;
    outside_.insert(worker);
    for (auto& [name, workers] : waiting_) workers.erase(worker);
    LookAtAll();
    return;
  }
  const std::string name(phase, n);
  if (name.starts_with(kAsk)) {
    if (on_ask_) on_ask_(worker, name);
    (void)!send(fds_[worker], "", 1, MSG_NOSIGNAL);
    return;
  }
  if (name == kJoinedPhase) {
    outside_.erase(worker);
    joined_.push_back(worker);
  }
  if (open_ || name == kJoinedPhase || passed_.contains(name)) {
    (void)!write(fds_[worker], "", 1);
    return;
  }
  waiting_[name].insert(worker);
  if (waiting_[name].size() + outside_.size() >= fds_.size()) Pass(name);
}

void PhaseGates::OpenAll() {
  open_ = true;
  for (int& fd : fds_) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

}  // namespace longhaul
