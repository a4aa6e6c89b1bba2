#include "plugin/core/ucx/doorman.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>

namespace longhaul {
namespace {

// By these eight bytes UCX's connections begin; a peer's next ones come in the same packet.
constexpr uint64_t kMagicBytes = 8;

bool Same(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
}

bool Has(const std::vector<sockaddr_in>& all, const sockaddr_in& one) {
  return std::any_of(all.begin(), all.end(), [&](const auto& other) { return Same(other, one); });
}

std::vector<int> OpenDescriptors() {
  std::vector<int> descriptors;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return descriptors;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') descriptors.push_back(std::atoi(entry->d_name));
  }
  ::closedir(folder);
  return descriptors;
}

// Its own end, if it is a TCP socket over IPv4.
std::optional<sockaddr_in> OwnEnd(int fd) {
  sockaddr_in own = {};
  socklen_t size = sizeof(own);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  int type = 0;
  socklen_t type_size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0) return std::nullopt;
  return own.sin_family == AF_INET && type == SOCK_STREAM ? std::optional(own) : std::nullopt;
}

bool Listens(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

std::vector<sockaddr_in> Listening() {
  std::vector<sockaddr_in> all;
  for (const int fd : OpenDescriptors()) {
    const std::optional<sockaddr_in> own = OwnEnd(fd);
    if (own && Listens(fd)) all.push_back(*own);
  }
  return all;
}

}  // namespace

void Doorman::BeforeWorker() { before_ = Listening(); }

void Doorman::AfterWorker(std::string_view address) {
  for (const sockaddr_in& own : Listening()) {
    const std::string_view port(reinterpret_cast<const char*>(&own.sin_port), sizeof(own.sin_port));
    // Another thread's listener is no business of ours.
    if (!Has(before_, own) && address.find(port) != std::string_view::npos) ports_.push_back(own);
  }
}

int Doorman::ShowOut(absl::Duration patience) const {
  std::vector<int> silent;
  bool kernel_counts = false;
  for (const int fd : OpenDescriptors()) {
    const std::optional<sockaddr_in> own = OwnEnd(fd);
    if (!own || Listens(fd)) continue;
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) continue;
    kernel_counts |= info.tcpi_bytes_received > kMagicBytes;  // ours to a peer, say
    if (Has(ports_, *own) && info.tcpi_bytes_received <= kMagicBytes &&
        absl::Milliseconds(info.tcpi_last_data_recv) >= patience) {
      silent.push_back(fd);
    }
  }
  if (!kernel_counts) return 0;
  // UCX sees the end, and closes it.
  for (const int fd : silent) ::shutdown(fd, SHUT_RDWR);
  return static_cast<int>(silent.size());
}

}  // namespace longhaul
