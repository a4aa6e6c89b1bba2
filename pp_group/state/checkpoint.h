#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// The state of one rank between two inner steps. Byte layout, little-endian:
//   8 bytes "LHCKPT01" | i64 step | i32 group | i32 stage | u32 length, spec text |
//   u32 number of sections | per section: u32 length, name | u64 length, bytes | u32 CRC32C of all
//   bytes before it
struct Checkpoint {
  int64_t step = 0;  // finished inner steps
  int group = 0, stage = 0;
  std::string spec;  // of the run, canonical text: only the same run may load it
  std::vector<std::pair<std::string, std::vector<std::byte>>> sections;

  // DataLoss: no such section, or not `bytes` long.
  absl::StatusOr<std::span<const std::byte>> Section(const std::string& name) const;
  absl::StatusOr<std::span<const std::byte>> Section(const std::string& name, size_t bytes) const;
};

// DIRECTORY/group0-stage1-step120.ckpt
std::string CheckpointPath(const std::string& directory, int group, int stage, int64_t step);

// Files of each rank that stay when nothing else is asked for: ranks that were killed while saving
// then still have one step in common.
constexpr int64_t kCheckpointsKept = 2;

// Writes to a temporary name, fsyncs file and directory, renames: a kill at any moment leaves the
// old files or the new one. Removes all but the newest `keep` (at least 1) of this rank, never the
// one just written. On the calling thread alone. Errors name the path and the system's reason.
absl::Status WriteCheckpoint(const std::string& directory, const Checkpoint& checkpoint,
                             int64_t keep = kCheckpointsKept);

// NotFound; DataLoss: truncated, corrupt, not a checkpoint.
absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path);

// Steps of this rank's checkpoint files in `directory`, ascending; empty if there are none.
std::vector<int64_t> CheckpointSteps(const std::string& directory, int group, int stage);

}  // namespace longhaul
