// Tensors on a GPU through the whole backend: staged in page-locked memory, sent, received, and
// back on the GPU with the bits that host tensors get. Skips where torch sees no GPU.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "plugin/backend/process_group.h"
#include "plugin/backend/staging.h"
#include "tests/backend/ranks.h"

namespace longhaul {
namespace {

class CudaTensors : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU for this torch";
  }
};

at::Tensor OnGpu(const at::Tensor& x) { return x.to(at::kCUDA); }

// Sends x from rank 0 to rank 1 of a group whose forward codec is `codec`; what arrived.
at::Tensor Sent(const std::string& codec, const at::Tensor& x, at::Tensor target) {
  const LocalGroup group = LoopbackGroup(2, [&](ProcessGroupLonghaul::Options& options) {
    options.codecs = {.forward = codec, .backward = codec, .by_tag = {}};
  });
  std::vector<at::Tensor> sent = {x}, got = {std::move(target)};
  const auto work = group[0]->send(sent, 1, 0);
  group[1]->recv(got, 0, 0)->wait();
  work->wait();
  return got[0];
}

TEST_F(CudaTensors, AreStagedInPageLockedMemory) {
  const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}), on_gpu = OnGpu(x).t();
  const Staging s = Staging::Of(on_gpu, Access::kReadWrite, "broadcast");
  auto* values = static_cast<float*>(s.wire().values);
  const at::Tensor wire = at::from_blob(values, {3, 2}, at::kFloat);
  EXPECT_TRUE(wire.is_pinned());
  EXPECT_TRUE(at::equal(wire, x.t()));
  ASSERT_TRUE(s.needs_copy_back());
  wire.add_(1);
  s.CopyBack();
  EXPECT_TRUE(at::equal(on_gpu.cpu(), x.t() + 1));
}

TEST_F(CudaTensors, ArriveAsHostTensorsDo) {
  const at::Tensor x = at::randn({64, 256});
  for (const char* codec : {"none", "int4-b64-h64", "int8-b64"}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor host = x.to(type), zeros = at::zeros_like(host);
      const at::Tensor want = Sent(codec, host, zeros.clone());
      EXPECT_TRUE(at::equal(Sent(codec, OnGpu(host), OnGpu(zeros)).cpu(), want)) << codec;
      EXPECT_TRUE(at::equal(Sent(codec, OnGpu(host), zeros.clone()), want)) << codec;
      EXPECT_TRUE(at::equal(Sent(codec, host, OnGpu(zeros)).cpu(), want)) << codec;
    }
  }
}

// The values are those at the time of the call, whatever the GPU has still to do then.
TEST_F(CudaTensors, AreSentAfterTheWorkThatMakesThem) {
  at::Tensor x = at::full({2048, 2048}, 1.0f / 2048, at::device(at::kCUDA).dtype(at::kFloat));
  at::Tensor product = x;
  for (int i = 0; i < 20; ++i) product = at::mm(product, at::full_like(x, 1.0f / 2048));
  const at::Tensor got = Sent("none", product, at::zeros_like(product));
  EXPECT_TRUE(at::equal(got, product));
  EXPECT_NEAR(got[5][7].item<float>(), 1.0f / 2048, 1e-6f);
}

TEST_F(CudaTensors, StridedTargetIsFilled) {
  const at::Tensor x = at::randn({8, 8}), whole = OnGpu(at::zeros({8, 16}));
  Sent("none", OnGpu(x), whole.narrow(1, 4, 8));
  EXPECT_TRUE(at::equal(whole.narrow(1, 4, 8).cpu(), x));
  EXPECT_EQ(at::count_nonzero(whole).item<int64_t>(), at::count_nonzero(x).item<int64_t>());
}

TEST_F(CudaTensors, CollectivesGiveEveryRankEqualBits) {
  const LocalGroup group = LoopbackGroup(3);
  const at::Tensor x = at::randn({100, 33});
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> one = {OnGpu(rank == 0 ? x.clone() : at::zeros_like(x))};
    pg.broadcast(one, {})->wait();
    EXPECT_TRUE(at::equal(one[0].cpu(), x));
    one[0] = OnGpu(x * (rank + 1));
    pg.allreduce(one, {})->wait();
    EXPECT_TRUE(at::equal(one[0].cpu(), x + x * 2 + x * 3));
    std::vector<std::vector<at::Tensor>> all(1);
    for (int i = 0; i < 3; ++i) all[0].push_back(OnGpu(at::zeros_like(x)));
    std::vector<at::Tensor> mine = {OnGpu(x + rank)};
    pg.allgather(all, mine, {})->wait();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::equal(all[0][static_cast<size_t>(i)].cpu(), x + i));
    }
  });
}

}  // namespace
}  // namespace longhaul
