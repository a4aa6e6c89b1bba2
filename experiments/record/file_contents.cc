#include "experiments/record/file_contents.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "compressors/numbers/sha256.h"

namespace longhaul {
namespace {

constexpr size_t kShownDigits = 16;
constexpr std::string_view kFrozen = "\n[frozen]\n";

// Takes what stands before the next `end` off `text`.
std::string_view Cut(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return piece;
}

bool Number(std::string_view text, int64_t* number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

// Where the table [frozen] begins and ends.
std::pair<size_t, size_t> FrozenRange(std::string_view plan_text) {
  const size_t begin = std::min(plan_text.find(kFrozen), plan_text.size());
  const size_t end = plan_text.find("\n[", std::min(begin + kFrozen.size() - 1, plan_text.size()));
  return {begin, std::min(end, plan_text.size())};
}

std::string_view Unquoted(std::string_view text) {
  return text.size() < 2 ? text : text.substr(1, text.size() - 2);
}

}  // namespace

std::string ContentsText(std::span<const FileContent> contents) {
  std::string text;
  for (const FileContent& c : contents) {
    text += fmt::format("{} {} {} {} {}\n", c.key, c.sha256, c.bytes, c.files, c.value);
  }
  return text;
}

std::vector<FileContent> ReadContents(std::string_view text) {
  std::vector<FileContent> contents;
  while (!text.empty()) {
    std::string_view line = Cut(text, '\n');
    FileContent c;
    c.key = Cut(line, ' ');
    c.sha256 = Cut(line, ' ');
    const bool counted = Number(Cut(line, ' '), &c.bytes) && Number(Cut(line, ' '), &c.files);
    c.value = line;
    if (counted) contents.push_back(std::move(c));
  }
  return contents;
}

std::string ContentConflict(std::span<const FileContent> there, std::span<const FileContent> here) {
  for (const FileContent& before : there) {
    for (const FileContent& now : here) {
      if (before.key != now.key || before.value != now.value || before.sha256 == now.sha256) {
        continue;
      }
      return fmt::format("{}{}: SHA-256 {} there, {} here", now.key,
                         now.value.empty() ? "" : fmt::format(" ({})", now.value),
                         ShortHash(before.sha256), ShortHash(now.sha256));
    }
  }
  return "";
}

std::string PlanWithoutFrozen(std::string_view plan_text) {
  const auto [begin, end] = FrozenRange(plan_text);
  return std::string(plan_text.substr(0, begin)) + std::string(plan_text.substr(end));
}

std::vector<FileContent> FrozenContents(std::string_view plan_text) {
  const auto [begin, end] = FrozenRange(plan_text);
  std::string_view text = plan_text.substr(begin, end - begin);
  std::vector<FileContent> contents;
  while (!text.empty()) {
    const std::string_view line = Cut(text, '\n');
    const size_t equals = line.find(" = ");
    if (equals == std::string_view::npos) continue;
    FileContent c;
    c.key = Unquoted(line.substr(0, equals));
    c.sha256 = Unquoted(line.substr(equals + 3));
    contents.push_back(std::move(c));
  }
  return contents;
}

std::string_view ShortHash(std::string_view sha256) { return sha256.substr(0, kShownDigits); }

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string text = fmt::format("{}: cannot be read: {}", path, strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  }
  constexpr size_t kPiece = 1 << 18;
  // Not made anew for each of thousands of small files.
  thread_local const auto piece = std::make_unique_for_overwrite<std::byte[]>(kPiece);
  Sha256 hash;
  ssize_t n = 0;
  while ((n = read(fd, piece.get(), kPiece)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) hash.Add({piece.get(), static_cast<size_t>(n)});
  }
  const int failed = n < 0 ? errno : 0;
  close(fd);
  if (failed != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: cannot be read: {}", path, strerror(failed)));
  }
  return hash.Hex();
}

}  // namespace longhaul
