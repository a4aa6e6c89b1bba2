// Sparse codecs: the coding of indices, the exact choice of the largest, the shared choice by seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "compressors/families/top_k.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/index_coding.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/small_floats.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

// Random sorted indices for every chunk; `dense` packs them at the chunk's start.
std::vector<uint32_t> DrawIndices(const ChunkGrid& grid, std::mt19937& rng, bool dense) {
  std::vector<uint32_t> indices;
  grid.ForEach([&](size_t length, size_t kept) {
    std::vector<uint32_t> all(length);
    std::iota(all.begin(), all.end(), 0u);
    if (!dense) std::shuffle(all.begin(), all.end(), rng);
    std::sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept));
    indices.insert(indices.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(kept));
    return true;
  });
  return indices;
}

struct GridCase {
  Shape shape;
  size_t chunk, kept;
};
const GridCase kGrids[] = {{{1, 4096}, 4096, 64},
                           {{1, 100'000}, 4096, 64},
                           {{3, 70}, 64, 63},
                           {{5, 1}, 2, 1},
                           {{1, 65536}, 65536, 3},
                           {{2, 1000}, 100, 100},
                           {{40, 130}, 128, 1},
                           {{1, 999}, 7, 3},
                           // Codes of 13 to 33 bits, alone and in pairs.
                           {{300, 65536}, 65536, 2},
                           {{60, 65536}, 65536, 9},
                           {{60, 20'000}, 20'000, 4}};

TEST(IndexCoding, EveryCodingRoundTripsInTheBytesItPlanned) {
  std::mt19937 rng(5);
  for (const GridCase& g : kGrids) {
    const ChunkGrid grid(g.shape, g.chunk, g.kept);
    for (bool dense : {false, true}) {
      const auto indices = DrawIndices(grid, rng, dense);
      ASSERT_EQ(indices.size(), grid.total_kept());
      const IndexPlan best = PlanIndices(grid, indices);
      // The plan's own choice, and a Rice coding with every r.
      std::vector<std::byte> out(best.bytes, std::byte{0xEE});
      WriteIndices(best, grid, indices, out.data());
      std::vector<uint32_t> back(indices.size());
      ASSERT_TRUE(ReadIndices(best.coding, best.rice, grid, out, back));
      ASSERT_EQ(back, indices);
      for (uint32_t r = 0; r <= 15; ++r) {
        size_t bits = 0;
        uint32_t next = 0;
        size_t at = 0;
        grid.ForEach([&](size_t, size_t kept) {
          next = 0;
          for (size_t i = 0; i < kept; ++i, ++at) {
            bits += ((indices[at] - next) >> r) + 1 + r;
            next = indices[at] + 1;
          }
          return true;
        });
        const size_t bytes = 4 * ((grid.chunks() + 15) / 16) + (bits + 7) / 8;
        EXPECT_GE(bytes, best.bytes) << "the plan is not the smallest";
        std::vector<std::byte> rice(bytes, std::byte{0xEE});
        WriteIndices({IndexCoding::kRice, r, bytes}, grid, indices, rice.data());
        ASSERT_TRUE(ReadIndices(IndexCoding::kRice, r, grid, rice, back)) << r;
        ASSERT_EQ(back, indices);
      }
    }
  }
}

// Two indices by hand: gaps 2 and 4, r = 1: "1 0 0" and "1 1 0 0", LSB first: 0011001.
TEST(IndexCoding, RiceBitsByHand) {
  const ChunkGrid grid({1, 16}, 16, 2);
  const std::vector<uint32_t> indices = {2, 7};
  std::vector<std::byte> out(5);
  WriteIndices({IndexCoding::kRice, 1, 5}, grid, indices, out.data());
  EXPECT_EQ(static_cast<int>(out[0]), 0);  // the table's one offset
  EXPECT_EQ(static_cast<int>(out[4]), 0b0011001);
}

TEST(IndexCoding, BitsPerIndexAreThoseOfGeometricGaps) {
  std::mt19937 rng(6);
  for (const auto& [kept, want] :
       {std::pair<size_t, double>{64, 7.53}, {128, 6.51}, {256, 5.48}, {410, 4.76}, {1024, 3.29}}) {
    const ChunkGrid grid({1, 1 << 20}, 4096, kept);
    const IndexPlan plan = PlanIndices(grid, DrawIndices(grid, rng, false));
    EXPECT_EQ(plan.coding, IndexCoding::kRice);
    const double bits =
        8.0 * static_cast<double>(plan.bytes) / static_cast<double>(grid.total_kept());
    EXPECT_NEAR(bits, want, 0.02 * want) << kept;
  }
}

TEST(IndexCoding, HostileBytesAreRefusedOrGiveIndicesThatFit) {
  std::mt19937 rng(7);
  for (int round = 0; round < 20'000; ++round) {
    const GridCase& g = kGrids[rng() % std::size(kGrids)];
    if (g.shape.elements() > 5000) continue;
    const ChunkGrid grid(g.shape, g.chunk, g.kept);
    std::vector<std::byte> in(rng() % 200);
    for (auto& b : in) b = static_cast<std::byte>(rng());
    std::vector<uint32_t> indices(grid.total_kept());
    const auto coding = static_cast<IndexCoding>(rng() % 4);
    if (!ReadIndices(coding, rng() % 17, grid, in, indices)) continue;
    size_t at = 0;
    grid.ForEach([&](size_t length, size_t kept) {
      for (size_t i = 0; i < kept; ++i, ++at) {
        EXPECT_LT(indices[at], length);
        if (i > 0) {
          EXPECT_LT(indices[at - 1], indices[at]);
        }
      }
      return true;
    });
  }
}

// Four bits each: 2 and 5 are two elements of sixteen, 2 and 2 or 5 and 2 are not.
TEST(IndexCoding, AnIndexThatComesTwiceOrBackIsRefused) {
  const ChunkGrid grid({1, 16}, 16, 2);
  std::vector<uint32_t> indices(2);
  for (const auto& [byte, good] : {std::pair(0x52, true), {0x22, false}, {0x25, false}}) {
    const std::vector<std::byte> in = {static_cast<std::byte>(byte)};
    EXPECT_EQ(ReadIndices(IndexCoding::kFixed, 0, grid, in, indices), good) << byte;
  }
}

// The definition: by magnitude, then by index.
std::vector<uint32_t> TopByDefinition(const std::vector<float>& x, size_t k) {
  std::vector<uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return (BitsOf(x[a]) & kAbsMask) > (BitsOf(x[b]) & kAbsMask);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopK, IsTheDefinitionWhateverCameBefore) {
  std::mt19937 rng(8);
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    TopKSelector selector(KernelsOf(isa));
    for (int round = 0; round < 400; ++round) {
      const size_t n = 1 + rng() % 5000, k = 1 + rng() % n;
      auto x = Draw(round % 2 == 0 ? Distribution::kGaussian : Distribution::kOutlier, n, round);
      const float scale = std::ldexp(1.0f, static_cast<int>(rng() % 200) - 100);
      for (float& v : x) {
        v *= scale;
        if (round % 3 == 0) v = std::round(v / scale * 2) * scale;  // many ties
        if (round % 7 == 0) v = 0;
      }
      std::vector<uint32_t> got(k);
      selector.Select(x, got);
      ASSERT_EQ(got, TopByDefinition(x, k)) << n << " " << k;
    }
  }
}

TEST(TopK, KeepsTheLargestAndZeroesTheRest) {
  const OwnedTensor x({.5f, -3, 1, 0, 2, -2, 2, 0.25f}, {1, 8});
  OwnedTensor y({1, 8}, DType::kF32);
  const auto codec = *MakeCodec("topk-3of8+none");
  ASSERT_TRUE(codec->Decode(*EncodeToFrame(*codec, x.view()), nullptr, y.mutable_view()).ok());
  EXPECT_EQ(y.floats(), (std::vector<float>{0, -3, 0, 0, 2, -2, 0, 0}));  // a tie: lower indices
}

TEST(TopK, TailChunksKeepTheirShareAndAtLeastOne) {
  const auto kept = [](const char* name, size_t n) {
    const OwnedTensor x(std::vector<float>(n, 1.0f), {1, n});
    OwnedTensor y({1, n}, DType::kF32);
    const auto codec = *MakeCodec(name);
    EXPECT_TRUE(codec->Decode(*EncodeToFrame(*codec, x.view()), nullptr, y.mutable_view()).ok());
    const auto values = y.floats();
    return std::count(values.begin(), values.end(), 1.0f);
  };
  EXPECT_EQ(kept("topk-64of4096+none", 4096 + 2048), 64 + 32);
  EXPECT_EQ(kept("topk-64of4096+none", 4096 + 95), 64 + 1);  // 1.48 rounds to 1
  EXPECT_EQ(kept("topk-64of4096+none", 4096 + 96), 64 + 2);  // 1.5 rounds up
  EXPECT_EQ(kept("topk-1of4096+none", 5), 1);
}

TEST(RandK, SameSeedChoosesTheSameElementsOnEveryReplica) {
  const Shape shape = {1, 10'000};
  const auto codec = *MakeCodec("randk-952of4096+none+ef");
  const auto chosen = [&](uint64_t tensor, uint64_t seed) {
    const OwnedTensor x(Draw(Distribution::kGaussian, 10'000, tensor), shape);
    OwnedTensor y(shape, DType::kF32);
    EXPECT_TRUE(
        codec->Decode(*EncodeToFrame(*codec, x.view(), seed), nullptr, y.mutable_view()).ok());
    std::set<size_t> at;
    for (size_t i = 0; i < 10'000; ++i) {
      if (y.floats()[i] != 0) at.insert(i);
    }
    return at;
  };
  const auto a = chosen(1, 7);
  EXPECT_EQ(a, chosen(2, 7));
  EXPECT_NE(a, chosen(1, 8));
  const size_t tail = 10'000 % 4096;
  EXPECT_EQ(a.size(), 2 * 952 + (2 * 952 * tail + 4096) / 8192);
}

TEST(RandK, IsUnbiasedWithoutErrorFeedback) {
  const Shape shape = {1, 64};
  const OwnedTensor x(Draw(Distribution::kGaussian, 64, 3), shape);
  const auto codec = *MakeCodec("randk-5of64+none");  // windows of 12 and 13
  std::vector<double> sum(64);
  const int rounds = 20'000;
  OwnedTensor y(shape, DType::kF32);
  for (int t = 0; t < rounds; ++t) {
    ASSERT_TRUE(codec
                    ->Decode(*EncodeToFrame(*codec, x.view(), FoldSeed({uint64_t(t)})), nullptr,
                             y.mutable_view())
                    .ok());
    const auto values = y.floats();
    for (size_t i = 0; i < 64; ++i) sum[i] += values[i];
  }
  for (size_t i = 0; i < 64; ++i) {
    const double error = std::fabs(x.floats()[i]) * std::sqrt(12.0 / rounds);
    EXPECT_NEAR(sum[i] / rounds, x.floats()[i], 5 * error + 1e-9) << i;
  }
}

// Every stochastic rounding has the right expectation: the mean of many encodings.
TEST(StochasticRounding, IsUnbiased) {
  const Shape shape = {1, 96};
  const OwnedTensor x(Draw(Distribution::kLaplace, 96, 4), shape);
  for (const char* name :
       {"int8-b64+sr", "int4-b64+sr", "int4-b64-h64+sr", "minmax2-b64+sr", "minmax4-b64-h64+sr",
        "mxfp4+sr", "mxfp4-h32+sr", "qsgd4", "qsgd8", "gact4-g256"}) {
    const auto codec = *MakeCodec(name);
    const int rounds = 10'000;
    std::vector<double> sum(96), square(96);
    OwnedTensor y(shape, DType::kF32);
    for (int t = 0; t < rounds; ++t) {
      ASSERT_TRUE(codec
                      ->Decode(*EncodeToFrame(*codec, x.view(), FoldSeed({uint64_t(t)})), nullptr,
                               y.mutable_view())
                      .ok());
      const auto values = y.floats();
      for (size_t i = 0; i < 96; ++i) {
        sum[i] += values[i];
        square[i] += double{values[i]} * values[i];
      }
    }
    for (size_t i = 0; i < 96; ++i) {
      const double mean = sum[i] / rounds;
      const double deviation = std::sqrt(std::max(0.0, square[i] / rounds - mean * mean) / rounds);
      // bf16 scales bias the block's extremes by up to 2^-9.
      EXPECT_NEAR(mean, x.floats()[i], 5 * deviation + std::fabs(x.floats()[i]) * 0x1p-8 + 1e-4)
          << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace longhaul
