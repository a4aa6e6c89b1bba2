#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// Which samples cross boundaries whose codec remembers them (RemembersSamples), and how often. A
// sample is a window of the data: the same tokens whenever it comes.
//
// Boundaries b, between stages b and b + 1, whose activations such a codec sends.
std::vector<int> SampleBoundaries(const RunSpec& spec);

// Rows of one group: those of a sample that it has not had before, and the others.
struct SampleVisits {
  int64_t first = 0, later = 0;
};
// By group, of the inner steps after `done`, behind the boundaries' warm-up; at `done` it has had what
// came until then. Data that cannot be read, and more than 2^25 rows, count as if no sample came twice,
// but for one group without a warm-up.
std::vector<SampleVisits> VisitsOf(const RunSpec& spec, int64_t done = 0);

// A line where such a codec meets no sample twice, so that it never sends what it is for.
std::vector<std::string> SampleAdvice(const RunSpec& spec);

}  // namespace longhaul
