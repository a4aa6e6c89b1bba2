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

absl::StatusOr<int> PhaseGates::AddWorker() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("make a worker's gate: ", strerror(errno)));
  }
  fds_.push_back(ends[0]);
  return ends[1];
}

void PhaseGates::Arrived(size_t worker) {
  char phase[64];
  const ssize_t n = recv(fds_[worker], phase, sizeof phase, MSG_DONTWAIT);
  if (n <= 0) {
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    close(fds_[worker]);  // the worker has ended; its exit status tells how
    fds_[worker] = -1;
    return;
  }
  const std::string name(phase, n);
  if (open_) {
    (void)!write(fds_[worker], "", 1);
    return;
  }
  if (++waiting_[name] < fds_.size()) return;
  waiting_.erase(name);
  on_phase_(name);
  for (const int fd : fds_) {
    if (fd >= 0) (void)!write(fd, "", 1);
  }
}

void PhaseGates::OpenAll() {
  open_ = true;
  for (int& fd : fds_) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

}  // namespace longhaul
