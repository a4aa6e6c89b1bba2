#include "netem/lab_control/lab_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "netem/lab_control/process_identity.h"

namespace longhaul {
namespace {

constexpr std::string_view kSuffixes[] = {".lock", ".sock", ".log"};
constexpr size_t kMaxNameBytes = 48;
constexpr int kBacklog = 64;
// A keeper whose lab's daemon is dead: the kernel needs no longer, unless one is stopped.
constexpr absl::Duration kEndsByItself = absl::Milliseconds(500);
constexpr absl::Duration kEndsWhenKilled = absl::Seconds(5);

// The whole file, of any length.
struct flock WriteLock() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool IsSameFile(int fd, int folder_fd, const std::string& name) {
  struct stat opened {
  }, named{};
  return fstat(fd, &opened) == 0 &&
         fstatat(folder_fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

// Takes the lock on NAME.lock. Between open and lock another process may have removed the file and
// a third made a new one: then the lock is on a file that nobody else sees, and we try again.
absl::StatusOr<Fd> LockFile(int folder_fd, const std::string& lab, int flags) {
  const std::string name = lab + ".lock";
  for (;;) {
    Fd fd(openat(folder_fd, name.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.ok()) return ErrnoStatus(fmt::format("lab {}: open {}", lab, name), errno);
    struct flock lock = WriteLock();
    if (fcntl(fd.get(), F_SETLK, &lock) != 0) {
      if (errno != EACCES && errno != EAGAIN) {
        return ErrnoStatus(fmt::format("lab {}: lock {}", lab, name), errno);
      }
      return absl::AlreadyExistsError(fmt::format(
          "lab '{}' is up already; take it down with 'longhaul net down {}', or choose --name", lab,
          lab));
    }
    if (IsSameFile(fd.get(), folder_fd, name)) return fd;
  }
}

// Reached through the descriptor: neither the length of the folder's path nor the mount namespace
// of the caller matters.
sockaddr_un SocketAddress(int folder_fd, const std::string& lab) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}.sock", folder_fd, lab);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

std::string TextOf(const Fd& file) {
  char text[256];
  const ssize_t bytes = pread(file.get(), text, sizeof text, 0);
  return std::string(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

std::string StandardFolder() {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return std::string(runtime) + "/longhaul";
  struct stat run {};
  const bool may_use_run = geteuid() == 0 && stat("/run", &run) == 0 && access("/run", W_OK) == 0;
  return may_use_run ? "/run/longhaul" : fmt::format("/tmp/longhaul-{}", geteuid());
}

}  // namespace

absl::StatusOr<LabStore> LabStore::Open() { return OpenAt(StandardFolder()); }

absl::StatusOr<LabStore> LabStore::OpenAt(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(fmt::format("labs: make the folder {}", folder), errno);
  }
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return ErrnoStatus(fmt::format("labs: open the folder {}", folder), errno);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0 || facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(fmt::format(
        "labs: {} must belong to uid {} with mode 0700; remove it, or set XDG_RUNTIME_DIR", folder,
        geteuid()));
  }
  return LabStore(folder, std::move(fd));
}

std::vector<std::string> LabStore::Names() const {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (folder == nullptr) return {};
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view file = entry->d_name;
    for (std::string_view suffix : kSuffixes) {
      if (file.ends_with(suffix)) names.emplace(file.substr(0, file.size() - suffix.size()));
    }
  }
  return {names.begin(), names.end()};
}

std::optional<pid_t> LabStore::Holder(const std::string& lab) const {
  const Fd fd(openat(fd_.get(), (lab + ".lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return errno == ENOENT ? std::nullopt : std::optional<pid_t>(0);
  struct flock lock = WriteLock();
  if (fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid > 0 ? lock.l_pid : 0;
}

absl::Status LabStore::Claim(const std::string& lab) {
  ASSIGN_OR_RETURN(auto fd, LockFile(fd_.get(), lab, O_CREAT));
  claim_ = std::move(fd);
  if (ftruncate(claim_.get(), 0) == 0) return absl::OkStatus();
  return ErrnoStatus(fmt::format("lab {}: empty its lock file", lab), errno);
}

absl::StatusOr<Fd> LabStore::Listen(const std::string& lab) const {
  unlinkat(fd_.get(), (lab + ".sock").c_str(), 0);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = SocketAddress(fd_.get(), lab);
  if (!fd.ok() ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(fmt::format("lab {}: listen on {}/{}.sock", lab, folder_, lab), errno);
  }
  return fd;
}

absl::StatusOr<Fd> LabStore::OpenLog(const std::string& lab) const {
  Fd fd(openat(fd_.get(), (lab + ".log").c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return ErrnoStatus(fmt::format("lab {}: open its log", lab), errno);
  return fd;
}

absl::StatusOr<Fd> LabStore::Connect(const std::string& lab) const {
  if (!Holder(lab)) {
    RemoveIfDead(lab);
    return absl::NotFoundError(
        fmt::format("no lab '{}' is up; 'longhaul net list' shows those that are", lab));
  }
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return ErrnoStatus(fmt::format("lab '{}': open a socket", lab), errno);
  const sockaddr_un address = SocketAddress(fd_.get(), lab);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return fd;
  }
  return absl::UnavailableError(
      fmt::format("lab '{}' does not answer: it is being built, or ends just now", lab));
}

void LabStore::RemoveIfDead(const std::string& lab) const {
  const auto lock = LockFile(fd_.get(), lab, O_CREAT);
  if (!lock.ok()) return;
  if (Fd keeper = OpenProcess(TextOf(*lock)); keeper.ok()) EndLabProcesses(std::move(keeper));
  for (std::string_view suffix : {".sock", ".log", ".lock"}) {  // the lock last
    unlinkat(fd_.get(), fmt::format("{}{}", lab, suffix).c_str(), 0);
  }
}

absl::Status LabStore::NoteKeeper(const std::string& lab, pid_t keeper) const {
  const Fd fd(openat(fd_.get(), (lab + ".lock").c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  const std::string text = IdentityOf(keeper);
  if (fd.ok() && pwrite(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
    return absl::OkStatus();
  return ErrnoStatus(fmt::format("lab {}: write down its keeper", lab), errno);
}

Fd LabStore::Keeper(const std::string& lab) const {
  const Fd fd(openat(fd_.get(), (lab + ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd.ok() ? OpenProcess(TextOf(fd)) : Fd();
}

bool EndLabProcesses(Fd keeper) {
  const std::vector<Fd> processes = WithChildren(std::move(keeper));
  if (EndedWithin(processes.back(), kEndsByItself)) return true;
  for (const Fd& process : processes) KillProcess(process);
  for (const Fd& process : processes) {
    if (!EndedWithin(process, kEndsWhenKilled)) return false;
  }
  return true;
}

absl::Status LabStore::Kill(const std::string& lab) const {
  const auto holder = Holder(lab);
  if (!holder) return absl::OkStatus();
  if (*holder == 0) {
    return absl::UnavailableError(
        fmt::format("lab '{}' runs in a PID namespace that cannot be seen from here", lab));
  }
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, *holder, 0)));
  // Asked again: the number may have passed to another process before we took hold of it.
  if (!process.ok() || Holder(lab) != holder) return absl::OkStatus();
  if (syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    return ErrnoStatus(fmt::format("lab {}: kill process {}", lab, *holder), errno);
  }
  return absl::OkStatus();
}

absl::Status CheckLabName(const std::string& lab) {
  bool plain = !lab.empty() && lab.size() <= kMaxNameBytes && lab[0] != '.' && lab[0] != '-';
  for (char c : lab) {
    plain =
        plain && (isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.');
  }
  if (plain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("lab name '{}': want 1 to {} letters, digits, '-', '_' and '.', not '-' or '.' "
                  "first",
                  lab, kMaxNameBytes));
}

}  // namespace longhaul
