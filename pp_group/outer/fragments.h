#pragma once

#include <cstdint>
#include <vector>

#include "pp_group/stage_layout.h"

namespace longhaul {

// One fragment of a stage's flat parameters.
struct Fragment {
  std::vector<FlatRange> ranges;  // ascending, of the flat buffer
  std::vector<FramePart> parts;   // of the ranges laid one behind the other
  int64_t elements = 0;
};

// The stage's parameters in `count` fragments. Block b of the whole model is of fragment b mod
// `count`, so that they do not depend on where stages are cut; the embeddings, the final norm and
// the head are of fragment 0. A stage without blocks of a fragment has an empty one.
std::vector<Fragment> FragmentsOf(const StageLayout& layout, int64_t count);

}  // namespace longhaul
