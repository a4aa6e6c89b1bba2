#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "experiments/record/row_fields.h"

namespace longhaul {

// A row as the event that carries it, and back, by the fields of row_fields.h. Hashes travel as
// hex: 2^53 is not enough for one. JSON has no NaN: a number that is none travels as null and comes
// back as NaN; an optional that is empty has no key.
namespace row_json {

inline nlohmann::json Out(int64_t v) { return v; }
inline nlohmann::json Out(bool v) { return v; }
inline nlohmann::json Out(uint64_t v) { return absl::StrFormat("%016x", v); }
inline nlohmann::json Out(const std::string& v) { return v; }
inline nlohmann::json Out(double v) {
  return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr);
}
template <Worded E>
nlohmann::json Out(E v) {
  return std::string(ToString(v));
}

inline void In(const nlohmann::json& j, int64_t* v) { *v = j.get<int64_t>(); }
inline void In(const nlohmann::json& j, bool* v) { *v = j.get<bool>(); }
inline void In(const nlohmann::json& j, uint64_t* v) {
  *v = std::strtoull(j.get<std::string>().c_str(), nullptr, 16);
}
inline void In(const nlohmann::json& j, std::string* v) { *v = j.get<std::string>(); }
inline void In(const nlohmann::json& j, double* v) {
  *v = j.is_null() ? std::nan("") : j.get<double>();
}
template <Worded E>
void In(const nlohmann::json& j, E* v) {
  *v = FromWord<E>(j.get<std::string>());
}

}  // namespace row_json

template <typename Row>
nlohmann::json EventOf(const char* kind, const Row& row) {
  nlohmann::json event = {{"event", kind}};
  VisitFields(row, [&event](const char* name, const auto& field) {
    if constexpr (requires { field.has_value(); }) {
      if (field.has_value()) event[name] = row_json::Out(*field);
    } else {
      event[name] = row_json::Out(field);
    }
  });
  return event;
}

// Keys that the event lacks leave the row's fields as they are. Throws nlohmann's type_error where
// a value is of another type, as events are read everywhere.
template <typename Row>
Row RowFrom(const nlohmann::json& event) {
  Row row{};
  VisitFields(row, [&event](const char* name, auto& field) {
    const auto found = event.find(name);
    if (found == event.end()) return;
    if constexpr (requires { field.has_value(); }) {
      row_json::In(*found, &field.emplace());
    } else {
      row_json::In(*found, &field);
    }
  });
  return row;
}

}  // namespace longhaul
