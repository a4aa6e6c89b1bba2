#include "plugin/core/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "plugin/core/group.h"

namespace longhaul {
namespace {

constexpr absl::Duration kWriteAgainAfter = absl::Milliseconds(100);

std::string State(const History::Operation& op, absl::Duration now) {
  const auto ago = [&](absl::Duration when) {
    return absl::FormatDuration(absl::Trunc(now - when, absl::Milliseconds(1))) + " ago";
  };
  if (op.ended == absl::InfiniteDuration()) return "waiting, began " + ago(op.began);
  return fmt::format("{}, began {}, ended {}", op.failed ? "failed" : "done", ago(op.began),
                     ago(op.ended));
}

std::string Line(const History::Operation& op, absl::Duration now) {
  const bool alone = op.what == "send" || op.what == "recv";
  const std::string name =
      alone ? fmt::format("{}, tag {}", op.what, op.tag)
            : fmt::format("{} {}, {}", op.what, op.tag,
                          op.direction == Direction::kSent ? "sent" : "received");
  return fmt::format("  {:<32} {:>12} bytes  {}\n", name, op.bytes, State(op, now));
}

absl::Status WriteAll(int file, std::string_view text) {
  if (ftruncate(file, 0) != 0) return absl::ErrnoToStatus(errno, "ftruncate");
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "write");
    text.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

History::History(std::string title, int size)
    : title_(std::move(title)), rings_(static_cast<size_t>(size) + 1) {}

History::Ring& History::RingOf(int peer) {
  return peer == kAnySource ? rings_.back() : rings_[static_cast<size_t>(peer)];
}

uint64_t History::Begin(int peer, Operation operation, absl::Duration now) {
  operation.began = now;
  const std::lock_guard lock(mu_);
  Ring& ring = RingOf(peer);
  ring.kept[ring.begun % kKept] = operation;
  return ring.begun++;
}

void History::End(int peer, uint64_t number, bool ok, absl::Duration now) {
  const std::lock_guard lock(mu_);
  Ring& ring = RingOf(peer);
  if (number + kKept < ring.begun) return;  // newer ones lie in its place
  Operation& operation = ring.kept[number % kKept];
  operation.ended = now;
  operation.failed = !ok;
}

std::string History::Text(absl::Duration now) const {
  const std::lock_guard lock(mu_);
  std::string text = fmt::format(
      "longhaul: {}: the last {} operations with each rank, the newest last\n", title_, kKept);
  for (size_t peer = 0; peer < rings_.size(); ++peer) {
    const Ring& ring = rings_[peer];
    if (ring.begun == 0) continue;
    text += peer + 1 == rings_.size() ? std::string("any rank\n") : fmt::format("rank {}\n", peer);
    for (uint64_t n = ring.begun < kKept ? 0 : ring.begun - kKept; n < ring.begun; ++n) {
      text += Line(ring.kept[n % kKept], now);
    }
  }
  return text;
}

std::string History::Written(absl::Duration now) {
  const std::string text = Text(now);
  const std::lock_guard lock(mu_);
  const std::string there = "; the last operations with each rank are in ";
  if (!path_.empty() && now - written_ < kWriteAgainAfter) return there + path_;
  std::string path = path_;
  int file = path.empty() ? -1 : open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) {  // the first time, or somebody has taken it away
    const char* const folder = std::getenv("TMPDIR");
    path = fmt::format("{}/longhaul-history-{}-XXXXXX",
                       folder == nullptr || *folder == '\0' ? "/tmp" : folder, getpid());
    file = mkostemp(path.data(), O_CLOEXEC);
  }
  const absl::Status status = file < 0 ? absl::ErrnoToStatus(errno, "open") : WriteAll(file, text);
  if (file >= 0) close(file);
  if (!status.ok()) {
    return fmt::format("; the last operations with each rank could not be written to {}: {}", path,
                       std::string(status.message()));
  }
  path_ = std::move(path);
  written_ = now;
  return there + path_;
}

}  // namespace longhaul
