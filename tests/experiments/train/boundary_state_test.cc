// The boundary group of a run: which state of a codec each micro-batch meets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <thread>

#include "compressors/catalog.h"
#include "compressors/numbers/noise.h"
#include "experiments/train/train_setup.h"

namespace longhaul {
namespace {

constexpr int kMicrobatches = 3, kSteps = 4;
constexpr Shape kShape{.rows = 4, .cols = 64};

RunSpec FeedbackSpec() {
  RunSpec spec{};
  spec.seed = 7;
  spec.schedule = {"1f1b", 2};
  spec.outer.groups = 1;
  spec.train.microbatches = kMicrobatches;
  spec.net.peer_deadline_s = 60;
  spec.boundary.forward = "int4-b64+ef";
  spec.boundary.backward = "int4-b64+ef21";  // keeps a state at the receiving end too
  return spec;
}

// What stage `from` sends: micro-batches differ, so that another one's residual would show.
at::Tensor Sent(int from, int step, int microbatch) {
  const int64_t n = static_cast<int64_t>(kShape.elements());
  return at::sin(at::arange(n) * (0.1 + microbatch) + (3.7 * step + from)).view({4, 64});
}

// What arrives at the other stage, in the order of sending, after `steps` steps both ways.
std::vector<at::Tensor> Crossed(TransportKind kind) {
  const RunSpec spec = FeedbackSpec();
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::string> addresses;
  for (int stage = 0; stage < 2; ++stage) {
    nodes.push_back(Node::Create({.transport = kind,
                                  .interface = kind == TransportKind::kUcx ? "lo" : std::string()})
                        .value());
    addresses.push_back(nodes.back()->address());
  }
  std::vector<at::Tensor> got[2];
  const auto train = [&](int stage) {
    const auto group = ProcessGroupLonghaul::FromAddresses(
        stage, addresses, ToGroupOptions(spec, GroupKind::kBoundary, 0, nodes[stage]));
    for (int step = 0; step < kSteps; ++step) {
      for (int m = 0; m < kMicrobatches; ++m) {
        std::vector<at::Tensor> out{Sent(stage, step, m)}, in{at::zeros_like(out[0])};
        const auto sent = group->send(out, 1 - stage, 0);
        group->recv(in, 1 - stage, 0)->wait();
        sent->wait();
        got[stage].push_back(in[0]);
      }
    }
    std::vector<at::Tensor> done{at::zeros({1})};
    group->allreduce(done, {})->wait();
  };
  std::thread other(train, 1);
  train(0);
  other.join();
  got[0].insert(got[0].end(), got[1].begin(), got[1].end());
  return got[0];
}

// The codec itself, with one state per micro-batch at either end.
std::vector<at::Tensor> Expected() {
  const RunSpec spec = FeedbackSpec();
  const uint64_t seed = ToGroupOptions(spec, GroupKind::kBoundary, 0, nullptr)->seed;
  std::vector<at::Tensor> all;
  for (const int from : {1, 0}) {  // as stage 0, then stage 1 receives
    const auto codec =
        MakeCodec(from == 0 ? spec.boundary.forward : spec.boundary.backward).value();
    std::unique_ptr<CodecState> states[kMicrobatches], mirrors[kMicrobatches];
    for (int m = 0; m < kMicrobatches; ++m) {
      states[m] = codec->NewState(kShape);
      mirrors[m] = codec->NewDecoderState(kShape);
    }
    for (int sequence = 0; sequence < kSteps * kMicrobatches; ++sequence) {
      const int m = sequence % kMicrobatches;
      const at::Tensor x = Sent(from, sequence / kMicrobatches, m);
      at::Tensor y = at::zeros_like(x);
      std::vector<std::byte> frame(codec->MaxFrameBytes(kShape, DType::kF32));
      const uint64_t noise = FoldSeed(
          {seed, static_cast<uint64_t>(sequence), static_cast<uint64_t>(from), uint64_t{0}});
      frame.resize(codec->Encode({x.data_ptr(), DType::kF32, kShape}, noise, states[m].get(), frame)
                       .value());
      EXPECT_TRUE(codec->Decode(frame, mirrors[m].get(), {y.data_ptr(), DType::kF32, kShape}).ok());
      all.push_back(y);
    }
  }
  return all;
}

TEST(BoundaryState, EachMicrobatchMeetsItsOwnResidualOverEitherTransport) {
  const std::vector<at::Tensor> expected = Expected();
  for (const TransportKind kind : {TransportKind::kLoopback, TransportKind::kUcx}) {
    const std::vector<at::Tensor> got = Crossed(kind);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(at::equal(got[i], expected[i]))
          << (kind == TransportKind::kUcx ? "ucx" : "loopback") << ", message " << i;
    }
  }
}

}  // namespace
}  // namespace longhaul
