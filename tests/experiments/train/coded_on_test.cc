// Where boundary tensors of a run on a GPU are coded, as this build does it.
#include "experiments/train/coded_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/cuda/cuda_codec.h"
#include "experiments/spec/known_names.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunSpec Spec(std::vector<std::string> sets) {
  const absl::StatusOr<RunSpec> spec =
      LoadRunSpec(LONGHAUL_SPECS "/gpt-aten.toml", sets, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

TEST(CodedOn, ACpuCodesOnTheHostWithoutANote) {
  const RunSpec spec = Spec({"boundary.forward=int4-b64-h64", "boundary.backward=int8-b64"});
  EXPECT_EQ(CodedOn(spec), "host");
  EXPECT_THAT(CodedOnAdvice(spec), IsEmpty());
}

TEST(CodedOn, NothingIsCodedWhereNothingIsCompressed) {
  for (const char* device : {"cpu", "cuda"}) {
    const RunSpec spec = Spec(
        {"boundary.forward=none", "boundary.backward=none", std::string("train.device=") + device});
    EXPECT_EQ(CodedOn(spec), "");
    EXPECT_THAT(CodedOnAdvice(spec), IsEmpty());
  }
}

TEST(CodedOn, AGpuCodesWhatThisBuildHasKernelsFor) {
  const RunSpec spec =
      Spec({"boundary.forward=int4-b64-h64", "boundary.backward=int8-b64", "train.device=cuda"});
  if (DeviceCodecsAreBuilt()) {
    EXPECT_EQ(CodedOn(spec), "device");
    EXPECT_THAT(CodedOnAdvice(spec), IsEmpty());
  } else {
    EXPECT_EQ(CodedOn(spec), "host");
    EXPECT_THAT(
        CodedOnAdvice(spec),
        ElementsAre(AllOf(HasSubstr("the host codes boundary tensors (int4-b64-h64, int8-b64)"),
                          HasSubstr("-DLONGHAUL_CUDA=ON"))));
  }
}

TEST(CodedOn, ACodecWithoutKernelsIsNamed) {
  const RunSpec spec = Spec({"boundary.forward=int4-b64-h64", "boundary.backward=qsgd8",
                             "train.device=cuda:*", "net.transport=ucx"});
  EXPECT_EQ(CodedOn(spec), DeviceCodecsAreBuilt() ? "device; host: qsgd8" : "host");
  EXPECT_THAT(CodedOnAdvice(spec), ElementsAre(HasSubstr("qsgd8")));
}

}  // namespace
}  // namespace longhaul
