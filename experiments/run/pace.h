#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace longhaul {

// How fast something goes and how long its rest will take, from the first and the last time that it
// was seen. Says nothing before it has seen something done in some time.
class Pace {
 public:
  // `done`: in any unit, never falling.
  void Observe(absl::Duration now, double done);
  std::optional<double> per_second() const;
  // Until `total` is done, at this pace.
  std::optional<absl::Duration> Left(double total) const;

 private:
  struct Seen {
    absl::Duration at;
    double done;
  };
  std::optional<Seen> first_, last_;
};

// "42 s", "12 min", "3.4 h": no finer than such a forecast is.
std::string RoughTime(absl::Duration time);

}  // namespace longhaul
