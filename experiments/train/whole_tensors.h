#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// A codec may find a tensor too small for it and send it whole: 'powersgd-r64' a matrix of 40 x 40,
// whose factors would be as large as the matrix.
//
// InvalidArgument, with both sizes, where a codec of the spec does so with every tensor that it is
// there for: it does nothing but cost memory.
absl::Status CheckCodecsFit(const RunSpec& spec);
// A line for each codec that does so with some of its tensors. Predicted bytes count them whole.
std::vector<std::string> WholeTensorAdvice(const RunSpec& spec);

}  // namespace longhaul
