#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longhaul {

// Owner of one file descriptor. Move-only; closes on destruction.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

// "what: Operation not permitted", with the code that says what the caller should do: EPERM and
// EACCES PermissionDenied; ENOENT and ENODEV FailedPrecondition; ETIMEDOUT DeadlineExceeded;
// everything else Internal. `error` is an errno value.
absl::Status ErrnoStatus(std::string_view what, int error);

// CLOCK_MONOTONIC, which nobody sets; its zero means nothing. For durations and deadlines.
absl::Time MonotonicNow();

// Writes a whole small file such as a sysctl. The message carries path and text.
absl::Status WriteFile(const std::string& path, std::string_view text);

// The file without trailing white space; "" where it cannot be read.
std::string ReadFileOrEmpty(const std::string& path);

// The text with every run of blanks and tabs made one blank (the kernel separates with tabs).
std::string OneBlank(std::string_view text);

}  // namespace longhaul
