// Opening and locks. Plans and the life of a run are in record_life.cc; rows go in
// and out in record_writes.cc and record_queries.cc.
#include "experiments/record/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/record/schema.h"

namespace longhaul {
namespace {

// A file without a name, also where O_TMPFILE is unknown (overlayfs, NFS).
int NamelessFile(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.reserve-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

constexpr std::string_view kLater = "CREATE TABLE IF NOT EXISTS";

// What a query of one number says. No statement may be open while a table goes.
absl::StatusOr<int64_t> NumberOf(sqlite3* db, const char* sql) {
  SqliteStatement query(db, sql);
  if (absl::StatusOr<bool> row = query.Step(); !row.ok()) return row.status();
  return query.Integer(0);
}

// The statement of the schema that begins so.
std::string StatementAt(size_t at) {
  const std::string sql = kSchemaSql;
  return sql.substr(at, sql.find(";\n", at) + 1 - at);  // comments have a ';' too, within a line
}

// The first records of this version check a crossing's direction against fewer words.
absl::Status WidenDirections(sqlite3* db) {
  const absl::StatusOr<int64_t> narrow = NumberOf(
      db, "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'crossings' AND instr(sql, 'tied') = 0");
  if (!narrow.ok() || *narrow == 0) return narrow.status();
  const size_t at = std::string_view(kSchemaSql).find("CREATE TABLE crossings ");
  for (const std::string& sql :
       {std::string("ALTER TABLE crossings RENAME TO crossings_before"), StatementAt(at),
        std::string("INSERT INTO crossings SELECT * FROM crossings_before"),
        std::string("DROP TABLE crossings_before")}) {
    RETURN_IF_ERROR(SqliteExecute(db, sql));
  }
  return absl::OkStatus();
}

absl::Status CreateSchema(sqlite3* db) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db));
  ASSIGN_OR_RETURN(const int64_t version, NumberOf(db, "PRAGMA user_version"));
  if (version == 0) {  // not created by another process meanwhile
    RETURN_IF_ERROR(SqliteExecute(db, kSchemaSql));
    const std::string set = fmt::format("PRAGMA user_version = {}", kSchemaVersion);
    RETURN_IF_ERROR(SqliteExecute(db, set));
  } else if (version == kSchemaVersion) {
    // Tables that the first records of this version lack.
    const std::string_view sql = kSchemaSql;
    for (size_t at = 0; (at = sql.find(kLater, at)) != std::string::npos; ++at) {
      RETURN_IF_ERROR(SqliteExecute(db, StatementAt(at)));
    }
    RETURN_IF_ERROR(WidenDirections(db));
  }
  return transaction.Commit();
}

absl::Status CheckVersion(sqlite3* db, const std::string& file) {
  SqliteStatement version(db, "PRAGMA user_version");
  if (absl::StatusOr<bool> row = version.Step(); !row.ok()) return row.status();
  if (version.Integer(0) == kSchemaVersion) return absl::OkStatus();
  if (version.Integer(0) == 0) {  // the disk was full, or what began it was killed at once
    return absl::NotFoundError(fmt::format("open {}: nothing was written into it yet", file));
  }
  return absl::FailedPreconditionError(
      fmt::format("open {}: schema version {}, this program reads {}", file, version.Integer(0),
                  kSchemaVersion));
}

absl::StatusOr<SqliteHandle> OpenDatabase(const std::string& name, int flags) {
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(name.c_str(), &raw, flags, nullptr);
  SqliteHandle db(raw);
  if (rc != SQLITE_OK) return SqliteError(raw, rc, "open " + name);
  sqlite3_busy_timeout(raw, 30'000);
  return db;
}

absl::StatusOr<SqliteHandle> OpenToWrite(const std::string& file) {
  ASSIGN_OR_RETURN(SqliteHandle db, OpenDatabase(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  for (const char* pragma :
       {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA foreign_keys = ON"}) {
    RETURN_IF_ERROR(SqliteExecute(db.get(), pragma));
  }
  RETURN_IF_ERROR(CreateSchema(db.get()));
  return db;
}

absl::StatusOr<SqliteHandle> OpenToRead(const std::string& file) {
  ASSIGN_OR_RETURN(SqliteHandle db, OpenDatabase(file, SQLITE_OPEN_READONLY));
  if (SqliteExecute(db.get(), "PRAGMA user_version").ok()) return db;
  // A folder that we may not write has no room for the shared-memory file of WAL mode.
  return OpenDatabase("file:" + file + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

// For the end of a message: the first folder in `folder` by name that has a record; of a file that
// a record is named by its folder; else "".
std::string RecordsBelow(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error)) return "; a record is named by its folder";
  std::string first;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().string();
    if (!std::filesystem::exists(entry.path() / kRecordFile, error)) continue;
    if (first.empty() || name < first) first = name;
  }
  return first.empty() ? "" : fmt::format("; {} has one", first);
}

struct flock RunByte(int64_t run, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = run;
  lock.l_len = 1;
  return lock;
}

}  // namespace

DiskReserve::DiskReserve(DiskReserve&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DiskReserve& DiskReserve::operator=(DiskReserve&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DiskReserve::~DiskReserve() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DiskReserve::Take(const std::string& folder, int64_t bytes) {
  if (fd_ >= 0) return absl::OkStatus();
  fd_ = NamelessFile(folder);
  const int error = fd_ < 0 ? errno : posix_fallocate(fd_, 0, bytes);
  if (error == 0) return absl::OkStatus();
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (error != ENOSPC && error != EDQUOT) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("keep {} KiB of the disk of {} for how a run ends: the disk is full ({}); free "
                  "some space",
                  bytes >> 10, folder, std::strerror(error)));
}

bool DiskReserve::Release() {
  if (fd_ < 0) return false;
  // Closing would not do: the run's processes have inherited the file.
  const bool released = ftruncate(fd_, 0) == 0;
  close(std::exchange(fd_, -1));
  return released;
}

Record::Record(std::string folder, SqliteHandle db, int lock_fd)
    : folder_(std::move(folder)), db_(std::move(db)), lock_fd_(lock_fd) {}

Record::Record(Record&& other) noexcept
    : folder_(std::move(other.folder_)),
      db_(std::move(other.db_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      locked_(std::move(other.locked_)),
      reserve_(std::move(other.reserve_)) {}

Record& Record::operator=(Record&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(db_, other.db_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(locked_, other.locked_);
  std::swap(reserve_, other.reserve_);
  return *this;
}

Record::~Record() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::StatusOr<Record> Record::Open(const std::string& folder, Mode mode) {
  const std::string file = folder + "/" + kRecordFile;
  const std::string lock_file = folder + "/longhaul.lock";
  if (mode == Mode::kRead && access(file.c_str(), F_OK) != 0) {
    const std::string why = std::strerror(errno);
    return absl::NotFoundError(
        fmt::format("no record there: open {}: {}{}", file, why, RecordsBelow(folder)));
  }
  if (mode == Mode::kWrite) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return absl::PermissionDeniedError(
          fmt::format("make folder {}: {}", folder, error.message()));
    }
  }
  const bool write = mode == Mode::kWrite;
  const int flags = (write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC;
  const int lock_fd = open(lock_file.c_str(), flags, 0666);
  if (write && lock_fd < 0) {
    return absl::PermissionDeniedError(fmt::format("open {}: {}", lock_file, std::strerror(errno)));
  }
  Record record(folder, nullptr, lock_fd);  // closes lock_fd on every way out
  // The switch to WAL mode does not wait for others as the rest of SQLite does; byte 0 belongs to
  // no run (ids start at 1) and lets one process open at a time.
  // A reader waits for it: a record has its tables only when its first writer has opened it.
  struct flock opening = RunByte(0, write ? F_WRLCK : F_RDLCK);
  if (lock_fd >= 0) fcntl(lock_fd, F_OFD_SETLKW, &opening);
  absl::StatusOr<SqliteHandle> db = write ? OpenToWrite(file) : OpenToRead(file);
  opening.l_type = F_UNLCK;
  if (lock_fd >= 0) fcntl(lock_fd, F_OFD_SETLK, &opening);
  if (!db.ok()) return db.status();
  RETURN_IF_ERROR(CheckVersion(db->get(), file));
  record.db_ = *std::move(db);
  return record;
}

// Open-file-description locks: held by this object alone, whatever else in the process opens or
// closes the file.
absl::Status Record::Lock(int64_t run) {
  struct flock lock = RunByte(run, F_WRLCK);
  if (fcntl(lock_fd_, F_OFD_SETLK, &lock) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("run {} of {} is being written by another process", run, folder_));
  }
  locked_.insert(run);
  return absl::OkStatus();
}

void Record::Unlock(int64_t run) {
  struct flock lock = RunByte(run, F_UNLCK);
  fcntl(lock_fd_, F_OFD_SETLK, &lock);
  locked_.erase(run);
}

bool Record::SomeoneWrites(int64_t run) const {
  if (locked_.contains(run)) return true;
  if (lock_fd_ < 0) return false;
  struct flock lock = RunByte(run, F_WRLCK);
  return fcntl(lock_fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace longhaul
