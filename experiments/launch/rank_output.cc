#include "experiments/launch/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

namespace longhaul {
namespace {

// A line that is longer goes out in pieces: a program that never ends one must not fill our memory.
constexpr size_t kMostLine = 64 << 10;

}  // namespace

absl::StatusOr<RankOutput> RankOutput::Make(size_t ranks) {
  std::vector<Stream> streams;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const bool error : {false, true}) {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return ErrnoStatus("launch: a pipe for output", errno);
      streams.push_back({.rank = rank, .error = error, .ours = Fd(ends[0]), .theirs = Fd(ends[1])});
    }
  }
  return RankOutput(std::move(streams));
}

RankOutput::~RankOutput() { Finish(); }

absl::Status RankOutput::TakeIn(size_t rank) const {
  for (const Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    const int target = stream.error ? STDERR_FILENO : STDOUT_FILENO;
    if (dup2(stream.theirs.get(), target) != target) {
      return ErrnoStatus("launch: give a program its output", errno);
    }
  }
  return absl::OkStatus();
}

void RankOutput::Start(Take take) {
  for (Stream& stream : streams_) stream.theirs.reset();
  thread_ = std::thread([this, take = std::move(take)] { Copy(streams_, take); });
}

void RankOutput::Finish() {
  if (thread_.joinable()) thread_.join();
}

void RankOutput::Copy(std::vector<Stream>& streams, const Take& take) {
  std::vector<pollfd> polled(streams.size());
  for (size_t open = streams.size(); open > 0;) {
    for (size_t i = 0; i < streams.size(); ++i) polled[i] = {streams[i].ours.get(), POLLIN, 0};
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (polled[i].revents == 0 || Read(streams[i], take)) continue;
      if (!streams[i].line.empty()) take(streams[i].rank, streams[i].error, streams[i].line);
      streams[i].ours.reset();
      --open;
    }
  }
}

// False at its end.
bool RankOutput::Read(Stream& stream, const Take& take) {
  std::array<char, 16384> buffer{};
  const ssize_t got = read(stream.ours.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  stream.line.append(buffer.data(), static_cast<size_t>(got));
  size_t from = 0;
  for (size_t end; (end = stream.line.find('\n', from)) != std::string::npos; from = end + 1) {
    take(stream.rank, stream.error, stream.line.substr(from, end - from));
  }
  stream.line.erase(0, from);
  if (stream.line.size() > kMostLine) {
    take(stream.rank, stream.error, stream.line);
    stream.line.clear();
  }
  return true;
}

void RankOutput::Print(size_t rank, bool error, const std::string& line) {
  std::FILE* const out = error ? stderr : stdout;
  const std::string text = fmt::format("[{}] {}\n", rank, line);
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

}  // namespace longhaul
