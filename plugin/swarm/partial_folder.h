#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/swarm/manifest.h"

namespace longhaul {

// INTO.partial while a fetch works: `manifest.json`, `lock`, and below `files` what has come. One
// fetch at a time, which the kernel's lock knows, however the one before ended.
class PartialFolder {
 public:
  // Makes or reopens it. FailedPrecondition: another fetch holds it, it is of another manifest, the
  // disk has too little room, or the system says no; each with the path.
  static absl::StatusOr<std::unique_ptr<PartialFolder>> Open(const Manifest& manifest,
                                                             const std::string& into);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::string& path() const { return path_; }  // INTO.partial
  std::string files() const { return path_ + "/files"; }

  // Checks every file's SHA-256, writes all to disk, moves the files to INTO and removes the rest.
  // DataLoss: a file does not match. AlreadyExists: INTO has come into being meanwhile.
  absl::Status Finish(const Manifest& manifest);

 private:
  PartialFolder(std::string into, int lock_fd);
  const std::string into_, path_;
  const int lock_fd_;
};

// Whether `into` is free: NotFound. OK: it is there and complete. AlreadyExists: it is there with
// other contents.
absl::Status CheckInto(const Manifest& manifest, const std::string& into);

}  // namespace longhaul
