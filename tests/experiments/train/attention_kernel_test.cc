// When a run on a GPU is told that its attention is not the fused one.
#include "experiments/train/attention_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Advice(std::vector<std::string> sets) {
  const absl::StatusOr<RunSpec> spec =
      LoadRunSpec(LONGHAUL_SPECS "/gpt-aten.toml", sets, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return AttentionAdvice(*spec);
}

TEST(AttentionKernel, HeadsThatTheFusedOneCannotTakeAreTold) {
  const std::vector<std::string> odd = {"model.width=48", "model.heads=4", "train.device=cuda",
                                        "train.dtype=bfloat16"};
  EXPECT_THAT(Advice(odd),
              ElementsAre(HasSubstr("model.width / model.heads = 12: the math kernel")));
  std::vector<std::string> asked = odd, even = odd, cpu = odd;
  asked.push_back("train.attention=math");
  EXPECT_THAT(Advice(asked), IsEmpty()) << "it was asked for";
  even[1] = "model.heads=6";
  EXPECT_THAT(Advice(even), IsEmpty());
  cpu[2] = "train.device=cpu";
  EXPECT_THAT(Advice(cpu), IsEmpty());
}

}  // namespace
}  // namespace longhaul
