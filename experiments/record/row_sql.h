#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "experiments/record/row_fields.h"
#include "experiments/record/sqlite.h"

namespace longhaul {

// A row as SQL, by the fields of row_fields.h.
namespace row_sql {

inline void Out(SqliteStatement& q, int64_t v) { q.Bind(v); }
inline void Out(SqliteStatement& q, double v) { q.Bind(v); }
inline void Out(SqliteStatement& q, bool v) { q.Bind(int64_t{v}); }
inline void Out(SqliteStatement& q, uint64_t v) { q.Bind(fmt::format("{:016x}", v)); }
inline void Out(SqliteStatement& q, const std::string& v) { q.Bind(v); }
// Columns of hashes are NOT NULL.
inline void Out(SqliteStatement& q, const std::optional<uint64_t>& v) {
  q.Bind(v ? fmt::format("{:016x}", *v) : "");
}
template <typename T>
void Out(SqliteStatement& q, const std::optional<T>& v) {
  q.Bind(v);
}
template <typename E>
requires std::is_enum_v<E>
void Out(SqliteStatement& q, E v) { q.Bind(std::string(ToString(v))); }

inline void In(const SqliteStatement& q, int c, int64_t* v) { *v = q.Integer(c); }
inline void In(const SqliteStatement& q, int c, double* v) { *v = q.Real(c); }
inline void In(const SqliteStatement& q, int c, bool* v) { *v = q.Integer(c) != 0; }
inline void In(const SqliteStatement& q, int c, uint64_t* v) {
  *v = std::strtoull(q.Text(c).c_str(), nullptr, 16);
}
inline void In(const SqliteStatement& q, int c, std::optional<uint64_t>* v) {
  v->reset();
  if (!q.Text(c).empty()) In(q, c, &v->emplace());
}
inline void In(const SqliteStatement& q, int c, std::string* v) { *v = q.Text(c); }
inline void In(const SqliteStatement& q, int c, std::optional<double>* v) { *v = q.MaybeReal(c); }
inline void In(const SqliteStatement& q, int c, std::optional<int64_t>* v) {
  *v = q.MaybeInteger(c);
}
inline void In(const SqliteStatement& q, int c, Direction* v) {
  const std::string text = q.Text(c);
  *v = Direction::kForward;
  while (*v != Direction::kOther && ToString(*v) != text) {
    *v = static_cast<Direction>(static_cast<int>(*v) + 1);
  }
}
// Enums of two values; the CHECK constraints of the schema allow no other text.
template <typename E>
requires std::is_enum_v<E>
void In(const SqliteStatement& q, int c, E* v) { *v = q.Text(c) == ToString(E{0}) ? E{0} : E{1}; }

}  // namespace row_sql

// "step, group_index, ..."
template <typename Row>
std::string ColumnList() {
  std::string list;
  Row row{};
  VisitFields(row, [&list](const char* name, const auto&) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  });
  return list;
}

// "INTO table (run_id, ...) VALUES (?,...)"
template <typename Row>
std::string InsertInto(std::string_view table) {
  std::string marks = "?";
  Row row{};
  VisitFields(row, [&marks](const char*, const auto&) { marks += ",?"; });
  return fmt::format("INTO {} (run_id, {}) VALUES ({})", table, ColumnList<Row>(), marks);
}

template <typename Row>
void BindRow(SqliteStatement& q, int64_t run, const Row& row) {
  q.Bind(run);
  VisitFields(row, [&q](const char*, const auto& field) { row_sql::Out(q, field); });
}

template <typename Row>
Row ReadRow(const SqliteStatement& q) {
  Row row{};
  int column = 0;
  VisitFields(row, [&](const char*, auto& field) { row_sql::In(q, column++, &field); });
  return row;
}

}  // namespace longhaul
