#include "experiments/run/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "pp_group/state/checkpoint.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

// "identity\nwords\n"; anything else has no owner.
std::optional<CheckpointOwner> ReadOwner(int fd) {
  char buffer[4096];
  const ssize_t n = pread(fd, buffer, sizeof buffer, 0);
  if (n <= 0) return std::nullopt;
  const std::string text(buffer, static_cast<size_t>(n));
  const size_t first = text.find('\n');
  if (first == 0 || first == std::string::npos || text.back() != '\n') return std::nullopt;
  return CheckpointOwner{.identity = text.substr(0, first),
                         .text = text.substr(first + 1, text.size() - first - 2)};
}

// The step that stands in a checkpoint's name (CheckpointPath), also of one not yet renamed.
std::optional<int64_t> StepOf(const std::string& name) {
  const size_t at = name.rfind("-step");
  const size_t dot = name.find(".ckpt");
  int64_t step = 0;
  if (at == std::string::npos || dot == std::string::npos || dot < at + 5) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(at + 5, dot - at - 5), &step)) return std::nullopt;
  return step;
}

std::vector<int64_t> StepsIn(const std::string& folder) {
  std::set<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (const auto step = StepOf(entry.path().filename().string())) steps.insert(*step);
  }
  return {steps.begin(), steps.end()};
}

}  // namespace

absl::StatusOr<CheckpointFolder> CheckpointFolder::Hold(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  const std::string absolute = error ? path : fs::absolute(path, error).string();
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("make the checkpoint folder '{}': {}", path, error.message()));
  }
  const std::string file = absolute + "/owner";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::FailedPreconditionError(fmt::format("open {}: {}", file, std::strerror(errno)));
  }
  CheckpointFolder folder(absolute, fd);  // closes fd on every way out
  folder.owner_ = ReadOwner(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    folder.owner_ = ReadOwner(fd);  // of whoever held it until now
    return folder;
  }
  if (errno != EWOULDBLOCK) {
    return absl::FailedPreconditionError(fmt::format("lock {}: {}", file, std::strerror(errno)));
  }
  return absl::UnavailableError(fmt::format("{} is at work on the checkpoints in {}",
                                            folder.owner_ ? folder.owner_->text : "another process",
                                            absolute));
}

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      owner_(std::move(other.owner_)) {}

CheckpointFolder& CheckpointFolder::operator=(CheckpointFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(owner_, other.owner_);
  return *this;
}

CheckpointFolder::~CheckpointFolder() {
  if (fd_ >= 0) close(fd_);
}

absl::Status CheckpointFolder::SetOwner(const CheckpointOwner& owner) {
  const std::string text = owner.identity + "\n" + owner.text + "\n";
  const ssize_t size = static_cast<ssize_t>(text.size());
  if (pwrite(fd_, text.data(), text.size(), 0) != size || ftruncate(fd_, size) != 0 ||
      fsync(fd_) != 0) {
    const std::string tried = fmt::format("write {}/owner: {}", path_, std::strerror(errno));
    return errno == ENOSPC ? absl::ResourceExhaustedError(tried)
                           : absl::FailedPreconditionError(tried);
  }
  owner_ = owner;
  return absl::OkStatus();
}

std::vector<int64_t> CheckpointFolder::CommonSteps(int64_t stages, int64_t groups) const {
  return CommonCheckpointSteps(path_, stages, groups);
}

std::vector<int64_t> CheckpointFolder::AnySteps() const { return StepsIn(path_); }

std::optional<int64_t> CheckpointFolder::NewestWholeStep(int64_t stages, int64_t groups) const {
  const auto whole = [&](int64_t step) {
    for (int64_t rank = 0; rank < stages * groups; ++rank) {
      const auto group = static_cast<int>(rank / stages), stage = static_cast<int>(rank % stages);
      if (!ReadCheckpoint(CheckpointPath(path_, group, stage, step)).ok()) return false;
    }
    return true;
  };
  const std::vector<int64_t> steps = CommonSteps(stages, groups);
  const auto newest = std::find_if(steps.rbegin(), steps.rend(), whole);
  return newest == steps.rend() ? std::nullopt : std::optional(*newest);
}

absl::Status CheckpointFolder::Remove(int64_t step) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (StepOf(entry.path().filename().string()) == step) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    fs::remove(file, error);
    if (error) {
      return absl::FailedPreconditionError(
          fmt::format("remove {}: {}", file.string(), error.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointFolder::RemoveAll() {
  for (const int64_t step : AnySteps()) {
    RETURN_IF_ERROR(Remove(step));
  }
  return absl::OkStatus();
}

namespace {

bool HoldsCheckpoints(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ckpt") return true;
  }
  return false;
}

// "run 3 (arm 'x') of ...", as its owner file says; "".
std::string OwnerTextIn(const fs::path& folder) {
  std::ifstream file(folder / "owner");
  std::string identity, text;
  std::getline(file, identity);
  std::getline(file, text);
  return text;
}

}  // namespace

std::vector<int64_t> CommonCheckpointSteps(const std::string& path, int64_t stages,
                                           int64_t groups) {
  std::vector<int64_t> common = StepsIn(path);
  for (int64_t rank = 0; rank < stages * groups; ++rank) {
    const std::vector<int64_t> own =
        CheckpointSteps(path, static_cast<int>(rank / stages), static_cast<int>(rank % stages));
    std::erase_if(common,
                  [&](int64_t s) { return std::find(own.begin(), own.end(), s) == own.end(); });
  }
  return common;
}

absl::StatusOr<std::string> FindCheckpoints(const std::string& path) {
  const fs::path given = fs::absolute(path).lexically_normal();
  if (HoldsCheckpoints(given)) return given.string();
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(given / "checkpoints", error)) {
    if (HoldsCheckpoints(entry.path())) found.push_back(entry.path());
  }
  if (found.empty()) {
    return absl::NotFoundError(
        fmt::format("go on from '{}': no checkpoint there nor in a folder below {}/checkpoints",
                    path, given.string()));
  }
  if (found.size() == 1) return found[0].string();
  std::sort(found.begin(), found.end());
  std::string all;
  for (const fs::path& folder : found) {
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", folder.string(), OwnerTextIn(folder));
  }
  return absl::InvalidArgumentError(fmt::format(
      "go on from '{}': {} runs left checkpoints there; name one: {}", path, found.size(), all));
}

std::string NewIdentity() {
  unsigned char bytes[16];
  (void)!getrandom(bytes, sizeof bytes, 0);  // never short for so few bytes
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

}  // namespace longhaul
