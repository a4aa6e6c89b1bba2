#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A figure of a path, by all its names. What a probability needs (`share`) is done for it by whoever
// goes through the table: it is read, checked, printed and recorded. So one more of those is a field
// of PathSpec, a row here, and what the emulators make of it.
struct PathFigure {
  std::string_view word;               // of `net set`: "delay"
  std::string_view examples;           // of its value there: "20ms"
  std::vector<std::string_view> keys;  // in a topology file: {"delay_ms"}
  std::string_view called;             // in Validate's messages: ": delay"
  // Reads a value of `net set`. InvalidArgument, without a change then: what it wants. `mtu`: of the
  // topology. Null: as a share.
  absl::Status (*set)(std::string_view value, int mtu, PathSpec& path);
  // A probability in [0, 1] of each packet; null: it is something else.
  double PathSpec::*share = nullptr;
  // As an option of `net up` and `net run`, what it says of itself; "": it is none.
  std::string_view option = "";
};
const std::vector<PathFigure>& PathFigureTable();

// Null: no figure has this word.
const PathFigure* PathFigureOf(std::string_view word);
absl::Status SetFigure(const PathFigure& figure, std::string_view value, int mtu, PathSpec& path);

}  // namespace longhaul
