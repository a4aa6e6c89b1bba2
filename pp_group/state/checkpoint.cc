#include "pp_group/state/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

constexpr char kMagic[8] = {'L', 'H', 'C', 'K', 'P', 'T', '0', '1'};

// Reads beyond the end give zeros and clear ok().
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> Bytes(uint64_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  template <typename T>
  T Number() {
    T value{};
    const auto taken = Bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  std::string Text() {
    const auto taken = Bytes(Number<uint32_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

absl::Status SystemError(const std::string& attempt) {
  const int error = errno;
  const std::string text = absl::StrCat(attempt, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  return absl::FailedPreconditionError(text);
}

// Owns a file descriptor.
class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Writes a file from front to back, and sums its CRC on the way. After an error nothing more is
// written.
class Writer {
 public:
  explicit Writer(const std::string& path)
      : path_(path), file_(path, O_WRONLY | O_CREAT | O_TRUNC) {
    if (file_.fd() < 0) status_ = SystemError("create " + path_);
  }
  void Bytes(const void* values, size_t size) {
    std::span bytes(static_cast<const std::byte*>(values), size);
    crc_ = Crc32cAlone(bytes, crc_);
    while (status_.ok() && !bytes.empty()) {
      const ssize_t written = write(file_.fd(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) status_ = SystemError("write " + path_);
      if (written > 0) bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  template <typename T>
  void Number(T value) {
    Bytes(&value, sizeof value);
  }
  void Text(const std::string& text) {
    Number(static_cast<uint32_t>(text.size()));
    Bytes(text.data(), text.size());
  }
  // The CRC of all that was written, as its end; on disk when this is OK.
  absl::Status Finish() {
    Number(crc_);
    if (status_.ok() && fsync(file_.fd()) != 0) status_ = SystemError("fsync " + path_);
    return status_;
  }

 private:
  const std::string path_;
  const File file_;
  uint32_t crc_ = 0;
  absl::Status status_;
};

std::string NamePrefix(int group, int stage) {
  return absl::StrCat("group", group, "-stage", stage, "-step");
}

absl::Status WriteTo(const std::string& path, const Checkpoint& checkpoint) {
  Writer writer(path);
  writer.Bytes(kMagic, sizeof kMagic);
  writer.Number(checkpoint.step);
  writer.Number(static_cast<int32_t>(checkpoint.group));
  writer.Number(static_cast<int32_t>(checkpoint.stage));
  writer.Text(checkpoint.spec);
  writer.Number(static_cast<uint32_t>(checkpoint.sections.size()));
  for (const auto& [name, bytes] : checkpoint.sections) {
    writer.Text(name);
    writer.Number(static_cast<uint64_t>(bytes.size()));
    writer.Bytes(bytes.data(), bytes.size());
  }
  return writer.Finish();
}

}  // namespace

absl::StatusOr<std::span<const std::byte>> Checkpoint::Section(const std::string& name) const {
  for (const auto& [section, content] : sections) {
    if (section == name) return std::span<const std::byte>(content);
  }
  return absl::DataLossError(absl::StrCat("checkpoint has no section '", name, "'"));
}

absl::StatusOr<std::span<const std::byte>> Checkpoint::Section(const std::string& name,
                                                               size_t bytes) const {
  const auto content = Section(name);
  if (!content.ok() || content->size() == bytes) return content;
  return absl::DataLossError(absl::StrCat("checkpoint section '", name, "': ", content->size(),
                                          " bytes, expected ", bytes));
}

std::string CheckpointPath(const std::string& directory, int group, int stage, int64_t step) {
  return absl::StrCat(directory, "/", NamePrefix(group, stage), step, ".ckpt");
}

absl::Status WriteCheckpoint(const std::string& directory, const Checkpoint& checkpoint,
                             int64_t keep) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("create directory ", directory, ": ", error.message()));
  }
  const std::string path =
      CheckpointPath(directory, checkpoint.group, checkpoint.stage, checkpoint.step);
  const std::string partial = path + ".partial";
  if (absl::Status status = WriteTo(partial, checkpoint); !status.ok()) {
    unlink(partial.c_str());
    return status;
  }
  if (rename(partial.c_str(), path.c_str()) != 0) {
    return SystemError(absl::StrCat("rename ", partial, " to ", path));
  }
  const File folder(directory, O_RDONLY | O_DIRECTORY);
  if (folder.fd() < 0 || fsync(folder.fd()) != 0) return SystemError("fsync " + directory);
  const std::vector<int64_t> steps = CheckpointSteps(directory, checkpoint.group, checkpoint.stage);
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    if (steps[i] == checkpoint.step) continue;
    unlink(CheckpointPath(directory, checkpoint.group, checkpoint.stage, steps[i]).c_str());
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return SystemError("open " + path);
  std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto bad = [&](const char* why) {
    return absl::DataLossError(
        absl::StrCat("checkpoint ", path, " (", bytes.size(), " bytes): ", why));
  };
  if (!file) return bad("cannot be read");
  constexpr size_t kCrcBytes = sizeof(uint32_t);
  if (bytes.size() < sizeof kMagic + kCrcBytes) return bad("truncated");
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return bad("not a checkpoint");
  const std::span<const std::byte> body = std::span(bytes).first(bytes.size() - kCrcBytes);
  if (Crc32c(body) != Reader(std::span(bytes).last(kCrcBytes)).Number<uint32_t>()) {
    return bad("truncated or corrupt (checksum)");
  }
  Reader reader(body.subspan(sizeof kMagic));
  Checkpoint checkpoint;
  checkpoint.step = reader.Number<int64_t>();
  checkpoint.group = reader.Number<int32_t>();
  checkpoint.stage = reader.Number<int32_t>();
  checkpoint.spec = reader.Text();
  const uint32_t count = reader.Number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name = reader.Text();
    const auto content = reader.Bytes(reader.Number<uint64_t>());
    checkpoint.sections.emplace_back(std::move(name),
                                     std::vector<std::byte>(content.begin(), content.end()));
  }
  if (!reader.done()) return bad("of an unknown layout");
  return checkpoint;
}

std::vector<int64_t> CheckpointSteps(const std::string& directory, int group, int stage) {
  const std::string prefix = NamePrefix(group, stage), suffix = ".ckpt";
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const std::string digits =
        name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    int64_t step = 0;
    if (absl::SimpleAtoi(digits, &step)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace longhaul
