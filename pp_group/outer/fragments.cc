#include "pp_group/outer/fragments.h"

#include <algorithm>

namespace longhaul {
namespace {

// Of a clip group, which is the embeddings, a block, or the final norm and head. A tied head's matrix
// is of the embeddings on both of its stages.
int64_t FragmentOfGroup(const StageLayout& layout, int64_t group, int64_t count) {
  const int64_t block = group - (layout.first() ? 1 : 0);
  if (block < 0 || block >= layout.num_blocks) return 0;
  return (layout.first_block + block) % count;
}

// What of the frame parts of everything lies in the ranges, as places in them.
std::vector<FramePart> PartsIn(const std::vector<FlatRange>& ranges,
                               const std::vector<FramePart>& parts) {
  std::vector<FramePart> in;
  int64_t at = 0;
  for (const FlatRange& range : ranges) {
    for (const FramePart& part : parts) {
      const int64_t begin = std::max(range.begin, part.begin), end = std::min(range.end, part.end);
      if (begin >= end) continue;
      const FramePart own = {at + begin - range.begin, at + end - range.begin, part.tied,
                             part.copy};
      const bool goes_on = !in.empty() && in.back().tied == own.tied && in.back().end == own.begin;
      if (goes_on) {
        in.back().end = own.end;
      } else {
        in.push_back(own);
      }
    }
    at += range.end - range.begin;
  }
  return in;
}

}  // namespace

std::vector<Fragment> FragmentsOf(const StageLayout& layout, int64_t count) {
  std::vector<Fragment> fragments(static_cast<size_t>(count));
  const auto add = [&](int64_t fragment, int64_t begin, int64_t end) {
    if (begin >= end) return;
    std::vector<FlatRange>& ranges = fragments[static_cast<size_t>(fragment)].ranges;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  };
  // The gap behind a clip group is of the group.
  int64_t at = 0;
  const auto groups = static_cast<int64_t>(layout.clip_groups.size());
  for (int64_t g = 0; g < groups; ++g) {
    const bool last = g + 1 == groups;
    const int64_t end =
        last ? layout.flat_elements : layout.clip_groups[static_cast<size_t>(g) + 1].begin;
    add(count == 1 ? 0 : FragmentOfGroup(layout, g, count), at, end);
    at = end;
  }
  add(0, at, layout.flat_elements);  // a layout without groups
  for (Fragment& fragment : fragments) {
    fragment.parts = PartsIn(fragment.ranges, FrameParts(layout));
    for (const FlatRange& range : fragment.ranges) fragment.elements += range.end - range.begin;
  }
  return fragments;
}

}  // namespace longhaul
