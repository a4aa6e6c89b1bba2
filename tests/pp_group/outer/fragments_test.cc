// Fragments of a model that is cut into stages.
#include "pp_group/outer/fragments.h"

#include <algorithm>
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/models/model.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

TEST(Fragments, AreOfTheWholeModelAndMissNothing) {
  const TrainSpec spec = SmallSpec(2, 1);
  for (const int64_t count : {1, 2, 3, 8}) {
    for (int s = 0; s < 2; ++s) {
      const StageLayout layout = LayoutOf(spec.model, s, 2, {});
      std::vector<int> owners(static_cast<size_t>(layout.flat_elements), 0);
      std::vector<Fragment> fragments = FragmentsOf(layout, count);
      ASSERT_EQ(fragments.size(), static_cast<size_t>(count));
      for (const Fragment& f : fragments) {
        int64_t elements = 0;
        for (const FlatRange& r : f.ranges) {
          for (int64_t i = r.begin; i < r.end; ++i) ++owners[static_cast<size_t>(i)];
          elements += r.end - r.begin;
        }
        EXPECT_EQ(elements, f.elements);
        int64_t in_parts = 0;
        for (const FramePart& p : f.parts) in_parts += p.elements();
        EXPECT_EQ(in_parts, f.elements);
      }
      EXPECT_THAT(owners, testing::Each(1));
      for (const ParameterSlot& slot : layout.slots) {
        int64_t block = 0;
        const bool of_block = std::sscanf(slot.name.c_str(), "block%ld.", &block) == 1;
        const Fragment& own = fragments[static_cast<size_t>(of_block ? block % count : 0)];
        const bool has = std::any_of(own.ranges.begin(), own.ranges.end(), [&](const FlatRange& r) {
          return r.begin <= slot.offset && slot.offset + slot.elements() <= r.end;
        });
        EXPECT_TRUE(has) << slot.name << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
