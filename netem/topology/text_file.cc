#include "netem/topology/text_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace longhaul {
namespace {

constexpr size_t kMebibyte = 1 << 20;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr std::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};

thread_local FilesRead* noting = nullptr;

}  // namespace

FilesRead::FilesRead() { noting = this; }
FilesRead::~FilesRead() { noting = nullptr; }

void FilesRead::Note(const std::string& path) {
  if (noting == nullptr) return;
  std::vector<std::string>& paths = noting->paths_;
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t most_bytes) {
  FilesRead::Note(path);
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, what));
  };
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  if (file == nullptr) {
    const std::string why = strerror(errno);
    std::error_code ignored;
    const std::string folder =
        path.starts_with('/') ? std::string() : std::filesystem::current_path(ignored).string();
    return absl::NotFoundError(
        fmt::format("{}: cannot be read: {}; want a file that is there{}", path, why,
                    folder.empty() ? "" : ": this name counts from " + folder));
  }
  struct stat facts {};
  if (fstat(fileno(file.get()), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return wrong("is a folder; want a file");
  }
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), file.get())) > 0;) {
    text.append(buffer.data(), n);
    if (text.size() > most_bytes) {
      const bool whole = most_bytes % kMebibyte == 0;
      return wrong(fmt::format("is longer than {} {}; want a text file",
                               most_bytes / (whole ? kMebibyte : 1), whole ? "MiB" : "bytes"));
    }
  }
  if (ferror(file.get()) != 0) return wrong(fmt::format("cannot be read: {}", strerror(errno)));
  for (std::string_view mark : kUtf16Marks) {
    if (text.starts_with(mark)) return wrong("is UTF-16; save it as UTF-8");
  }
  if (text.find('\0') != std::string::npos) return wrong("is no text: it holds bytes of zero");
  if (text.starts_with(kUtf8Mark)) text.erase(0, kUtf8Mark.size());
  return text;
}

}  // namespace longhaul
