#pragma once

#include <nlohmann/json.hpp>

#include "experiments/estimates/table.h"

namespace longhaul {

// An interval's ends, level and method are null where there is none.
nlohmann::ordered_json ToJson(const Measured& x);

// One object a row, by the columns' keys; what has no value is null.
nlohmann::ordered_json JsonRows(const Table& table);

}  // namespace longhaul
