#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planning/simulator/calibration_file.h"

namespace longhaul::simulator {

// How the share of tokens that a codec costs goes with the size of the model: -ln eta in proportion to
// N^exponent at equal tokens a parameter, N parameters. An exponent of 0 is token transfer.
struct SizeLaw {
  std::string arm;    // of the campaigns that it is fitted to
  Measured exponent;  // with its 95 % interval
};

// From law_terms.csv of `longhaul report --law`: the row of `arm` for -ln eta in N. `arm` "": the only
// one there. InvalidArgument, naming the file: no such file, another header, no such arm (with the
// ones there are), several arms and none named, a figure that is none or lies outside its interval.
absl::StatusOr<SizeLaw> ReadSizeLaw(const std::string& path, const std::string& arm);
absl::StatusOr<SizeLaw> ParseSizeLaw(const std::string& text, const std::string& arm,
                                     const std::string& where);

}  // namespace longhaul::simulator
