#pragma once

#include <string>
#include <vector>

namespace longhaul {

// One line of a resolved spec: "train", "lr", "0.003". An element of an array of tables is
// "fault[0]".
struct SpecLine {
  std::string table, key, value;
  std::string path() const { return table.empty() ? key : table + "." + key; }
};
using SpecLines = std::vector<SpecLine>;

}  // namespace longhaul
