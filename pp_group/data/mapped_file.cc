#include "pp_group/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& what,
                                                                   const std::string& path) {
  const auto failed = [&](const char* attempt) {
    const int error = errno;
    const std::string text =
        absl::StrCat(what, " ", path, ": ", attempt, ": ", std::strerror(error));
    return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(text)
                                               : absl::FailedPreconditionError(text);
  };
  // Non-blocking: opening a pipe that nobody writes to would wait for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("open");
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": not a regular file"));
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* const start =
      size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, /*offset=*/0);
  const absl::Status mapped = start == MAP_FAILED ? failed("map") : absl::OkStatus();
  close(fd);
  if (!mapped.ok()) return mapped;
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(start), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release() const {
  if (bytes_.empty()) return;
  madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace longhaul
