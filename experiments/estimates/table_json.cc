#include "experiments/estimates/table_json.h"

namespace longhaul {

using nlohmann::ordered_json;

namespace {

ordered_json JsonOf(const Cell::Value& value) {
  return std::visit(
      [](const auto& x) -> ordered_json {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) return nullptr;
        if constexpr (std::is_same_v<T, Measured>) return ToJson(x);
        if constexpr (!std::is_same_v<T, std::monostate> && !std::is_same_v<T, Measured>) return x;
      },
      value);
}

}  // namespace

ordered_json ToJson(const Measured& x) {
  const std::optional<Interval>& i = x.interval;
  return {{"value", x.value},
          {"low", i ? ordered_json(i->low) : ordered_json(nullptr)},
          {"high", i ? ordered_json(i->high) : ordered_json(nullptr)},
          {"level", i ? ordered_json(i->level) : ordered_json(nullptr)},
          {"method", i ? ordered_json(i->method) : ordered_json(nullptr)}};
}

ordered_json JsonRows(const Table& table) {
  ordered_json out = ordered_json::array();
  for (const std::vector<Cell>& row : table.rows) {
    ordered_json one = ordered_json::object();
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Cell::Value value = c < row.size() ? row[c].value : Cell::Value();
      const std::vector<std::string>& keys = table.columns[c].keys;
      const bool one_key = keys.size() == 1 || table.columns[c].one_object;
      if (one_key) one[keys[0]] = JsonOf(value);
      if (one_key || keys.empty()) continue;
      const auto* m = std::get_if<Measured>(&value);
      const bool ends = m != nullptr && m->interval && m->bound != Bound::kUpper;
      one[keys[0]] = m != nullptr ? ordered_json(m->value) : ordered_json(nullptr);
      one[keys[1]] = ends ? ordered_json(m->interval->low) : ordered_json(nullptr);
      one[keys[2]] = ends ? ordered_json(m->interval->high) : ordered_json(nullptr);
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace longhaul
