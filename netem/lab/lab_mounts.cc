#include "netem/lab/lab_mounts.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/status_macros.h"
#include "netem/kernel/posix.h"

namespace longhaul {
namespace {

constexpr std::string_view kRun = "/run/";
constexpr char kHostRun[] = "/run/host";

// The entry of /run that a path leads through; "": none, or one that is the lab's own.
std::string EntryOfRun(std::string_view path) {
  if (!path.starts_with(kRun)) return "";
  const std::string_view rest = path.substr(kRun.size());
  const std::string_view entry = rest.substr(0, rest.find('/'));
  for (std::string_view own : {".", "..", "netns", "host", "hosts", "resolv.conf", "gai.conf"}) {
    if (entry == own) return "";
  }
  return std::string(entry);
}

bool IsSame(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

// Made elsewhere, since it is to hold what it will cover, and then moved.
absl::Status MountRun() {
  constexpr char kMadeAt[] = "/sys";
  if (mount("tmpfs", kMadeAt, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m") != 0) {
    return ErrnoStatus("lab: mount a tmpfs for /run", errno);
  }
  for (const char* folder : {"netns", "host"}) {
    const std::string path = fmt::format("{}/{}", kMadeAt, folder);
    if (mkdir(path.c_str(), 0755) != 0) return ErrnoStatus("lab: mkdir " + path, errno);
  }
  const std::string host = fmt::format("{}/host", kMadeAt);
  if (mount("/run", host.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return ErrnoStatus("lab: keep the host's /run", errno);
  }
  if (mount(kMadeAt, "/run", nullptr, MS_MOVE, nullptr) != 0) {
    return ErrnoStatus("lab: mount a tmpfs on /run", errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MountLab() {
  // Slave: nothing of ours reaches the host, and what the host mounts or unmounts reaches us.
  if (mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return ErrnoStatus("lab: keep mounts from the host", errno);
  }
  // A container that masks parts of /proc forbids a fresh one; the old one then still answers
  // /proc/thread-self and /proc/sys rightly, which is all that is used here.
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 &&
      errno != EPERM) {
    return ErrnoStatus("lab: mount /proc", errno);
  }
  std::error_code no_folder;  // one that was deleted stays where it is
  const std::string folder = std::filesystem::current_path(no_folder).string();
  RETURN_IF_ERROR(MountRun());
  for (const char* files : {"/run/media", "/run/user"}) {  // where people have theirs
    RETURN_IF_ERROR(ShowHostRun(files));
  }
  if (no_folder || EntryOfRun(folder).empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ShowHostRun(folder));
  return chdir(folder.c_str()) == 0 ? absl::OkStatus()
                                    : ErrnoStatus("lab: enter the folder " + folder, errno);
}

absl::Status ShowHostRun(std::string_view path) {
  const std::string entry = EntryOfRun(path);
  if (entry.empty()) return absl::OkStatus();
  const std::string host = fmt::format("{}/{}", kHostRun, entry);
  const std::string here = fmt::format("{}{}", kRun, entry);
  struct stat there {};
  if (lstat(host.c_str(), &there) != 0 || IsSame(host, here)) return absl::OkStatus();
  std::error_code error;
  if (S_ISLNK(there.st_mode)) {
    std::filesystem::copy_symlink(host, here, error);
  } else if (!S_ISDIR(there.st_mode)) {
    return absl::OkStatus();
  } else {
    std::filesystem::create_directory(here, error);
    if (!error && mount(host.c_str(), here.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      error.assign(errno, std::generic_category());
    }
  }
  if (!error) return absl::OkStatus();
  return ErrnoStatus(fmt::format("lab: show the host's {}", here), error.value());
}

}  // namespace longhaul
