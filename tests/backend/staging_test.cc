#include "plugin/backend/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Staging, ContiguousHostMemoryIsUsedInPlace) {
  const at::Tensor x = at::arange(6, at::kFloat).view({2, 3});
  const Staging s = Staging::Of(x, Access::kWrite, "recv");
  EXPECT_EQ(s.wire().values, x.data_ptr());
  EXPECT_EQ(s.wire().type, ElementType::kF32);
  EXPECT_THAT(s.wire().dims, ElementsAre(2, 3));
  EXPECT_FALSE(s.needs_copy_back());
}

TEST(Staging, StridedInputIsSentInRowMajorOrder) {
  const at::Tensor x = at::arange(6, at::kLong).view({2, 3}).t();
  const Staging s = Staging::Of(x, Access::kRead, "send");
  const auto* values = static_cast<const int64_t*>(s.wire().values);
  EXPECT_THAT(std::vector<int64_t>(values, values + 6), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(s.wire().dims, ElementsAre(3, 2));
  EXPECT_FALSE(s.needs_copy_back());
}

TEST(Staging, StridedOutputIsCopiedBack) {
  const at::Tensor whole = at::zeros({4, 4});
  const at::Tensor column = whole.select(1, 2);
  const Staging s = Staging::Of(column, Access::kWrite, "recv");
  ASSERT_TRUE(s.needs_copy_back());
  auto* values = static_cast<float*>(s.wire().values);
  for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(i + 1);
  s.CopyBack();
  EXPECT_TRUE(at::equal(column, at::arange(1, 5, at::kFloat)));
  EXPECT_EQ(whole.sum().item<float>(), 10);
}

TEST(Staging, LazyConjugateIsResolved) {
  const at::Tensor x = at::view_as_complex(at::ones({1, 2})).conj();
  const Staging s = Staging::Of(x, Access::kRead, "send");
  EXPECT_EQ(static_cast<const float*>(s.wire().values)[1], -1.0f);
}

TEST(Staging, ListIsLaidEndToEndAndCopiedBack) {
  const std::vector<at::Tensor> list = {at::ones({2}), at::full({2, 2}, 5.0f)};
  const Staging s = Staging::OfList(list, Access::kReadWrite, "allreduce_coalesced");
  auto* values = static_cast<float*>(s.wire().values);
  EXPECT_THAT(std::vector<float>(values, values + 6), ElementsAre(1, 1, 5, 5, 5, 5));
  EXPECT_THAT(s.wire().dims, ElementsAre(6));
  for (int i = 0; i < 6; ++i) values[i] *= 2;
  s.CopyBack();
  EXPECT_EQ(list[0].sum().item<float>(), 4);
  EXPECT_EQ(list[1].sum().item<float>(), 40);
}

TEST(Staging, EmptyTensorIsLegal) {
  const Staging s = Staging::Of(at::empty({0, 4}), Access::kRead, "send");
  EXPECT_EQ(s.wire().elements(), 0);
}

TEST(Staging, RequiresGradLeafMayBeWritten) {
  const at::Tensor x = at::zeros({4, 4}).t().requires_grad_();
  const Staging s = Staging::Of(x, Access::kWrite, "broadcast");
  static_cast<float*>(s.wire().values)[0] = 1;
  s.CopyBack();
}

// What never crosses the wire is refused by name and says what to do.
std::string Refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "accepted";
}

TEST(Staging, RefusesWhatIsNotDenseHostOrCudaMemoryOfAWireDtype) {
  const auto of = [](at::Tensor x) { return [x] { Staging::Of(x, Access::kRead, "send"); }; };
  EXPECT_THAT(Refusal(of(at::zeros({4}).to_sparse())), HasSubstr("send: layout Sparse"));
  EXPECT_THAT(Refusal(of(at::zeros({4}, at::kComplexHalf))),
              HasSubstr("dtype ComplexHalf does not cross the wire"));
  EXPECT_THAT(Refusal(of(at::zeros({4}, at::device(at::kMeta)))), HasSubstr("device meta"));
  EXPECT_THAT(Refusal(of(at::Tensor())), HasSubstr("undefined"));
}

TEST(Staging, RefusesMixedAndEmptyLists) {
  EXPECT_THAT(Refusal([] { Staging::OfList({}, Access::kRead, "op"); }), HasSubstr("empty list"));
  EXPECT_THAT(Refusal([] {
                Staging::OfList({at::zeros(1), at::zeros(1, at::kLong)}, Access::kRead, "op");
              }),
              HasSubstr("saw Float on cpu and Long on cpu"));
  EXPECT_THAT(Refusal([] {
                OnlyTensor({at::zeros(1), at::zeros(1)}, "send");
              }),
              HasSubstr("saw 2"));
}

}  // namespace
}  // namespace longhaul
