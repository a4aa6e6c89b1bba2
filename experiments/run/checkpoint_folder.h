#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Whose checkpoints a folder holds.
struct CheckpointOwner {
  std::string identity;  // of the run, drawn once; the run's row has it as a fact
  std::string text;      // for people: "run 3 (arm 'x') of /results, process 12 on host"
};

// A folder of checkpoints, held by one process at a time: a kernel lock on FOLDER/owner, dropped
// with the process however it ends. The file says whose the checkpoints are.
class CheckpointFolder {
 public:
  // Makes the folder when it is not there. Unavailable: a living process holds it, said in the
  // owner's text. FailedPrecondition: it cannot be made.
  static absl::StatusOr<CheckpointFolder> Hold(const std::string& path);
  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder& operator=(CheckpointFolder&& other) noexcept;
  ~CheckpointFolder();

  const std::string& path() const { return path_; }  // absolute
  const std::optional<CheckpointOwner>& owner() const { return owner_; }
  absl::Status SetOwner(const CheckpointOwner& owner);

  // Steps of which every one of the S x G ranks has a file, ascending; and of which any has.
  std::vector<int64_t> CommonSteps(int64_t stages, int64_t groups) const;
  std::vector<int64_t> AnySteps() const;
  // The last of CommonSteps whose files can all be read whole (a checksum each); none: nullopt.
  std::optional<int64_t> NewestWholeStep(int64_t stages, int64_t groups) const;

  // Removes the checkpoints of a step, and of all steps. Errors name the file.
  absl::Status Remove(int64_t step);
  absl::Status RemoveAll();

 private:
  CheckpointFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;  // of FOLDER/owner, locked
  std::optional<CheckpointOwner> owner_;
};

// As CommonSteps, of a folder that somebody else may hold.
std::vector<int64_t> CommonCheckpointSteps(const std::string& path, int64_t stages, int64_t groups);

// The folder of checkpoints that `path` means: `path` itself, or the one below it where it is the
// folder of a record. Absolute. NotFound: no checkpoint there; InvalidArgument: several runs left
// some, each with its folder.
absl::StatusOr<std::string> FindCheckpoints(const std::string& path);

// 128 random bits as hex: what tells a run from every other one of every record.
std::string NewIdentity();

}  // namespace longhaul
