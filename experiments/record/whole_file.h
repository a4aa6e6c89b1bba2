#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// A file that a user named. A regular file, or one that is not there yet, is written under another
// name beside it and renamed, so that it appears complete or not at all, with the mode of the file it
// replaces. A symbolic link is followed to its target. Into everything else (a device, a FIFO,
// /dev/stdout) the bytes are written as they come. One thread at a time.
class WholeFile {
 public:
  // Unavailable, with path and reason: it is a folder, or cannot be opened or made.
  static absl::StatusOr<WholeFile> Open(const std::string& path);
  WholeFile(WholeFile&& other) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile();  // without Close(): a regular file stays as it was

  void Write(std::string_view bytes);  // Close() reports what failed
  // Unavailable, with path and reason: some bytes were not written, or the rename failed.
  absl::Status Close();

 private:
  explicit WholeFile(std::string path) : path_(std::move(path)) {}
  void Discard();

  std::string path_;           // as the user named it
  std::string target_, part_;  // empty part_: written through
  int fd_ = -1;
  int error_ = 0;  // errno of the first write that failed
};

absl::Status WriteWholeFile(const std::string& path, std::string_view text);

// Whether WriteWholeFile could begin, before anything that takes time. Changes nothing; a device or
// FIFO is not opened.
absl::Status CheckWritable(const std::string& path);

}  // namespace longhaul
