#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// A text file that a person wrote, without the byte-order mark that some editors put first. One
// line that says what is wrong: NotFound: it cannot be opened, why, and from which folder its name
// counts; InvalidArgument: a folder, UTF-16, bytes of zero, or more than `most_bytes`, which is all
// that is read.
inline constexpr size_t kMostTextBytes = 64 << 20;
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t most_bytes = kMostTextBytes);

// Notes which files this thread reads while it lives: whatever a topology names, and whatever that
// names. At most one at a time.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;
  const std::vector<std::string>& paths() const { return paths_; }  // in order, each once

  // Said by every reader of a file, ReadTextFile too.
  static void Note(const std::string& path);

 private:
  std::vector<std::string> paths_;
};

}  // namespace longhaul
