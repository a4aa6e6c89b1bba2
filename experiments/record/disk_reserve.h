#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace longhaul {

// Some room of a disk, kept in a file without a name so that it goes with its process. Given up
// when the disk is full, it lets a record's last words be written: how a run ended.
class DiskReserve {
 public:
  DiskReserve() = default;
  DiskReserve(DiskReserve&& other) noexcept;
  DiskReserve& operator=(DiskReserve&& other) noexcept;
  ~DiskReserve();

  // Takes `bytes` on the disk of `folder`, unless it is held already. ResourceExhausted: the disk
  // has no such room. OK without a reserve where the file system cannot keep one.
  absl::Status Take(const std::string& folder, int64_t bytes);

  // Gives the room back to the disk, also while other processes have inherited the file. False:
  // there was none.
  bool Release();

 private:
  int fd_ = -1;
};

}  // namespace longhaul
