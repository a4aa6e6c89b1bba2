#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

struct SqliteClose {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using SqliteHandle = std::unique_ptr<sqlite3, SqliteClose>;

// What the last call on `db` failed with, as a Status that says what was tried on which file.
// ResourceExhausted: disk full. PermissionDenied: read-only or not ours. Unavailable: locked by
// another process for longer than the busy timeout. DataLoss: not a database, or a corrupt one.
absl::Status SqliteError(sqlite3* db, int rc, std::string_view tried);

// Runs statements that return no rows.
absl::Status SqliteExecute(sqlite3* db, const std::string& sql);

// One prepared statement: bind in order, then step. Errors are kept and come out of the next
// Step() or Done(), so a row of binds needs no check each. Not thread safe.
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* db, const char* sql);
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  SqliteStatement& Bind(int64_t value);
  SqliteStatement& Bind(double value);  // NaN and infinity are stored as text "nan", "inf", "-inf"
  SqliteStatement& Bind(const std::string& value);
  SqliteStatement& BindNull();
  template <typename T>
  SqliteStatement& Bind(const std::optional<T>& value) {
    return value ? Bind(*value) : BindNull();
  }

  absl::StatusOr<bool> Step();  // true: a row
  absl::Status Done();          // Step to the end, ignoring rows, and reset for the next binds

  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double Real(int column) const;
  std::string Text(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::optional<int64_t> MaybeInteger(int column) const;
  std::optional<double> MaybeReal(int column) const;
  int columns() const { return sqlite3_column_count(statement_); }
  std::string ColumnName(int column) const { return sqlite3_column_name(statement_, column); }

 private:
  void Keep(int rc);

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;  // parameter that the next Bind fills
  int error_ = SQLITE_OK;
};

// BEGIN IMMEDIATE until Commit; rolled back when it goes out of scope first.
class SqliteTransaction {
 public:
  static absl::StatusOr<SqliteTransaction> Begin(sqlite3* db);
  SqliteTransaction(SqliteTransaction&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  ~SqliteTransaction();
  absl::Status Commit();

 private:
  explicit SqliteTransaction(sqlite3* db) : db_(db) {}
  sqlite3* db_;  // null: finished
};

}  // namespace longhaul
