#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// A file's bytes, mapped for reading: they lie in the kernel's page cache, once for all processes
// that read the file, and are given back when memory is short. Whoever shortens a file that is
// mapped ends the processes that read beyond its new end (SIGBUS).
class MappedFile {
 public:
  // NotFound: no such file; FailedPrecondition: not a regular file, or one that cannot be read or
  // mapped, with the system's reason. `what` opens the message ("corpus").
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& what,
                                                                const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  // This process is not going to read them again soon: they no longer count as its memory.
  void Release() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  const std::span<const std::byte> bytes_;
};

}  // namespace longhaul
