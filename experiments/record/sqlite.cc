#include "experiments/record/sqlite.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {

absl::Status SqliteError(sqlite3* db, int rc, std::string_view tried) {
  const char* file = db == nullptr ? nullptr : sqlite3_db_filename(db, "main");
  const int os_error = db == nullptr ? 0 : sqlite3_system_errno(db);
  std::string why = db == nullptr ? sqlite3_errstr(rc) : sqlite3_errmsg(db);
  if (os_error != 0 && (rc & 0xff) != SQLITE_CONSTRAINT) {
    why += fmt::format(" ({})", std::strerror(os_error));
  }
  const std::string message =
      fmt::format("{}: {}: {}", tried, file == nullptr ? "the record" : file, why);
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message + "; free some space");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message + "; another process holds the record");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return absl::DataLossError(message);
    case SQLITE_IOERR:
      if (os_error == ENOSPC || os_error == EDQUOT) {
        return absl::ResourceExhaustedError(message + "; free some space");
      }
      return absl::UnavailableError(message);
    case SQLITE_CONSTRAINT:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status SqliteExecute(sqlite3* db, const std::string& sql) {
  const int rc = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? absl::OkStatus() : SqliteError(db, rc, sql.substr(0, sql.find('\n')));
}

SqliteStatement::SqliteStatement(sqlite3* db, const char* sql) : db_(db) {
  Keep(sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr));
}

void SqliteStatement::Keep(int rc) {
  if (error_ == SQLITE_OK) error_ = rc;
}

SqliteStatement& SqliteStatement::Bind(int64_t value) {
  Keep(sqlite3_bind_int64(statement_, next_++, value));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(double value) {
  // SQLite turns a NaN into NULL in silence; a diverged loss must stay visible.
  if (std::isnan(value)) return Bind(std::string("nan"));
  if (std::isinf(value)) return Bind(std::string(value > 0 ? "inf" : "-inf"));
  Keep(sqlite3_bind_double(statement_, next_++, value));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(const std::string& value) {
  Keep(sqlite3_bind_text(statement_, next_++, value.data(), static_cast<int>(value.size()),
                         SQLITE_TRANSIENT));
  return *this;
}

SqliteStatement& SqliteStatement::BindNull() {
  Keep(sqlite3_bind_null(statement_, next_++));
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  if (error_ == SQLITE_OK) {
    const int rc = sqlite3_step(statement_);
    if (rc == SQLITE_ROW) return true;
    if (rc == SQLITE_DONE) return false;
    error_ = rc;
  }
  const char* sql = statement_ == nullptr ? nullptr : sqlite3_sql(statement_);
  const std::string first(sql == nullptr ? "prepare" : sql);
  return SqliteError(db_, error_, first.substr(0, first.find('(')));
}

absl::Status SqliteStatement::Done() {
  absl::StatusOr<bool> row = Step();
  while (row.ok() && *row) row = Step();
  if (!row.ok()) return row.status();
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  next_ = 1;
  return absl::OkStatus();
}

double SqliteStatement::Real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_TEXT) {
    const std::string text = Text(column);
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(statement_, column);
}

std::string SqliteStatement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

std::optional<int64_t> SqliteStatement::MaybeInteger(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Integer(column);
}

std::optional<double> SqliteStatement::MaybeReal(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Real(column);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(sqlite3* db) {
  RETURN_IF_ERROR(SqliteExecute(db, "BEGIN IMMEDIATE"));
  return SqliteTransaction(db);
}

SqliteTransaction::~SqliteTransaction() {
  if (db_ != nullptr) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::Status SqliteTransaction::Commit() {
  RETURN_IF_ERROR(SqliteExecute(db_, "COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

}  // namespace longhaul
