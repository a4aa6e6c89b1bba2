#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A figure of a path, by all its names. What a probability needs (`share`) is done for it by whoever
// goes through the table: it is read, checked, printed and recorded, and its frames are cut to the
// MTU. impairment.h says what else one more of those needs.
struct PathFigure {
  std::string_view word;               // of `net set`: "delay"
  std::string_view examples;           // of its value there: "20ms"
  std::vector<std::string_view> keys;  // in a topology file: {"delay_ms"}
  std::string_view called;             // in Validate's messages: ": delay"
  // Reads a value of `net set`. InvalidArgument, without a change then: what it wants. `mtu`: of the
  // topology. Null: as a share.
  absl::Status (*set)(std::string_view value, int mtu, PathSpec& path);
  // A probability in [0, 1] of each packet, where it stands in a path; null: it is something else.
  double& (*share)(PathSpec& path) = nullptr;
  // Help of the option of `net up` and `net run`; "": no option.
  std::string_view option = "";
  // Why the kernel's netem cannot do it, and what it is that is asked for; "": it can.
  std::string_view tap_alone = "";
  bool (*is_given)(const PathSpec& path) = nullptr;  // null: as a share
  // Of a share that means nothing without a delay: why; "": it needs none.
  std::string_view without_delay = "";

  double ShareOf(const PathSpec& path) const {
    return share(const_cast<PathSpec&>(path));  // which is only read
  }
  bool IsGiven(const PathSpec& path) const {
    return is_given != nullptr ? is_given(path) : ShareOf(path) > 0;
  }
};
const std::vector<PathFigure>& PathFigureTable();

// Null: no figure has this word.
const PathFigure* PathFigureOf(std::string_view word);
absl::Status SetFigure(const PathFigure& figure, std::string_view value, int mtu, PathSpec& path);

}  // namespace longhaul
