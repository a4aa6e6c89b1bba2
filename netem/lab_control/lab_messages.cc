#include "netem/lab_control/lab_messages.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace longhaul {
namespace {

constexpr size_t kMaxFds = 8;
constexpr size_t kMaxLineBytes = 64 << 20;  // statistics of the largest topology

// sendmsg with descriptors on the first byte.
ssize_t SendSome(int socket, const char* bytes, size_t size, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(bytes), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t ReceiveSome(int socket, char* bytes, size_t size, std::vector<Fd>& fds) {
  iovec part{bytes, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n < 0) return n;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, kMaxFds> received{};
    memcpy(received.data(), CMSG_DATA(c), count * sizeof(int));
    for (size_t i = 0; i < count; ++i) fds.emplace_back(received[i]);
  }
  return n;
}

}  // namespace

absl::Status SendLine(const Fd& socket, const nlohmann::json& message,
                      const std::vector<int>& fds) {
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = SendSome(socket.get(), line.data() + sent, line.size() - sent,
                               sent == 0 ? fds : std::vector<int>{});
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::UnavailableError("lab: the other end of the socket is gone");
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<Received> ReceiveLine(const Fd& socket, absl::Duration timeout, int cancel_fd) {
  const absl::Time end = MonotonicNow() + timeout;
  std::string line;
  std::vector<Fd> fds;
  std::vector<char> buffer(1 << 16);
  while (line.empty() || line.back() != '\n') {
    const absl::Duration left = std::min(end - MonotonicNow(), absl::Hours(1));
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("lab: no answer in time");
    pollfd ready[] = {{socket.get(), POLLIN, 0}, {cancel_fd, POLLIN, 0}};  // -1: none
    const timespec limit = absl::ToTimespec(left);
    if (ppoll(ready, 2, &limit, nullptr) <= 0) continue;
    if (ready[1].revents != 0) return absl::CancelledError("lab: the wait was cancelled");
    const ssize_t n = ReceiveSome(socket.get(), buffer.data(), buffer.size(), fds);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return absl::UnavailableError("lab: it ended before it answered");
    line.append(buffer.data(), static_cast<size_t>(n));
    if (line.size() > kMaxLineBytes) return absl::DataLossError("lab: a message without an end");
  }
  nlohmann::json message = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return absl::DataLossError("lab: a message that is no JSON object");
  return Received{std::move(message), std::move(fds)};
}

nlohmann::json ErrorAnswer(const absl::Status& status) {
  return {{"ok", false},
          {"code", static_cast<int>(status.code())},
          {"error", std::string(status.message())}};
}

absl::Status StatusOfAnswer(const nlohmann::json& answer) {
  const auto ok = answer.find("ok"), code = answer.find("code"), error = answer.find("error");
  if (ok != answer.end() && ok->is_boolean() && ok->get<bool>()) return absl::OkStatus();
  if (code == answer.end() || !code->is_number_integer() || error == answer.end() ||
      !error->is_string()) {
    return absl::InternalError("lab: an answer of another version; take the lab down");
  }
  return absl::Status(static_cast<absl::StatusCode>(code->get<int>()), error->get<std::string>());
}

}  // namespace longhaul
