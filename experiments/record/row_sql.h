#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

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
template <Worded E>
void Out(SqliteStatement& q, E v) {
  q.Bind(std::string(ToString(v)));
}

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
template <Worded E>
void In(const SqliteStatement& q, int c, E* v) {
  *v = FromWord<E>(q.Text(c));
}

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

// "INSERT INTO table (run_id, ...) VALUES (?,...)" and what becomes of rows of equal keys.
template <typename Row>
std::string InsertSql() {
  std::string marks = "?";
  Row row{};
  VisitFields(row, [&marks](const char*, const auto&) { marks += ",?"; });
  const RowTable& table = kTable<Row>;
  return fmt::format("{} INTO {} ({}, {}) VALUES ({}){}", table.insert, table.name, table.owner,
                     ColumnList<Row>(), marks, table.on_conflict);
}

// Of a run, or of an experiment.
template <typename Row>
std::string SelectSql() {
  const RowTable& table = kTable<Row>;
  return fmt::format("SELECT {} FROM {} WHERE {} = ? ORDER BY {}", ColumnList<Row>(), table.name,
                     table.owner, table.order);
}

template <typename Row>
void BindRow(SqliteStatement& q, int64_t owner, const Row& row) {
  q.Bind(owner);
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
