// Collectives with a codec, over every transport: values bit for bit against encodings, decodings and
// sums composed here with a codec alone; bytes against the closed form of collective_coded.cc; error
// against exact sums.
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/catalog.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/small_floats.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using Collectives = CodecPolicy::Collectives;
using Way = Collectives::Way;
using Values = std::vector<float>;
using AllValues = std::vector<Values>;  // by rank

constexpr int64_t kHeader = 112;
constexpr uint64_t kSeed = 77;

// What a rank decodes of the frame that `source` sends as message `sequence` of collective `tag`.
Values Passed(const Values& x, std::string_view codec, uint64_t sequence, size_t source,
              uint64_t tag = 0) {
  if (x.empty()) return x;
  const auto made = MakeCodec(codec).value();
  const Shape shape{1, x.size()};
  std::vector<std::byte> frame(made->MaxFrameBytes(shape, DType::kF32));
  const uint64_t seed = FoldSeed({kSeed, sequence, source, tag});
  const auto bytes = made->Encode({x.data(), DType::kF32, shape}, seed, nullptr, frame);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  Values decoded(x.size());
  EXPECT_EQ(DecodeFrame(std::span(frame).first(*bytes), {decoded.data(), DType::kF32, shape}),
            absl::OkStatus());
  return decoded;
}

Values Plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Values Over(Values a, float divisor) {
  for (float& value : a) value /= divisor;
  return a;
}
// Part r of n of x; the first of them have one more.
Values Part(const Values& x, size_t r, size_t n) {
  const size_t each = x.size() / n, more = x.size() % n;
  const size_t first = r * each + std::min(r, more);
  return {x.begin() + static_cast<ptrdiff_t>(first),
          x.begin() + static_cast<ptrdiff_t>(first + each + (r < more))};
}

// By the formulas, of ranks that are sites.
Values DirectPart(const AllValues& parts, size_t owner, std::string_view codec) {
  Values sum;
  for (size_t r = 0; r < parts.size(); ++r) {
    const Values share = r == owner ? parts[r] : Passed(parts[r], codec, 0, r);
    sum = r == 0 ? share : Plus(sum, share);
  }
  return sum;
}
Values RingPart(const AllValues& parts, size_t owner, std::string_view codec) {
  const size_t n = parts.size();
  Values sum = parts[(owner + 1) % n];
  for (size_t step = 0; step + 1 < n; ++step) {
    const size_t from = (owner + 1 + step) % n;
    sum = Plus(Passed(sum, codec, step, from), parts[(from + 1) % n]);
  }
  return sum;
}

class Coded : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  size_t size() const { return static_cast<size_t>(std::get<1>(GetParam())); }
  std::vector<std::shared_ptr<Group>> MakeGroup(const Collectives& collectives,
                                                int64_t min_elements = 1) const {
    return cluster_.MakeGroup("coded", [&](GroupOptions& options) {
      options.codecs.collectives = collectives;
      options.codecs.min_elements = min_elements;
      options.seed = kSeed;
    });
  }
  AllValues Inputs(size_t count) const {
    AllValues inputs;
    for (size_t r = 0; r < size(); ++r) inputs.push_back(Noise(count, 500 + r));
    return inputs;
  }
  AllValues PartsOf(const AllValues& inputs, size_t part) const {
    AllValues parts;
    for (const Values& x : inputs) parts.push_back(Part(x, part, size()));
    return parts;
  }

  const Cluster cluster_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

AllValues AllReduced(const std::vector<std::shared_ptr<Group>>& group, AllValues x,
                     ReduceOp op = ReduceOp::kSum) {
  std::vector<Outcome> outcomes(group.size());
  for (size_t r = 0; r < group.size(); ++r) {
    group[r]->AllReduce(F32(x[r]), op, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
  return x;
}

int64_t Sent(const Group& group, std::string_view codec, int peer = -1) {
  int64_t bytes = 0;
  for (const CrossingCounters& row : group.counters()) {
    if (row.sent && row.codec == codec && (peer < 0 || row.peer == peer)) {
      bytes += row.collective_bytes;
    }
  }
  return bytes;
}

// 64-byte header, a bf16 scale per 64 values, a byte per value, both padded to eights.
int64_t Int8Frame(size_t count) {
  const auto up8 = [](size_t n) { return static_cast<int64_t>((n + 7) / 8 * 8); };
  return 64 + up8(2 * ((count + 63) / 64)) + up8(count);
}

TEST_P(Coded, DirectSumsAreThoseOfTheFormulaOnEveryRank) {
  for (const std::string codec : {"int8-b64", "int4-b64-h64", "int8-b64+sr"}) {
    for (const size_t count : {size_t{1}, size_t{130}, size_t{70001}}) {
      const AllValues in = Inputs(count);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
        Values expected;
        for (size_t owner = 0; owner < size(); ++owner) {
          Values sum = DirectPart(PartsOf(in, owner), owner, codec);
          if (op == ReduceOp::kAvg) sum = Over(sum, static_cast<float>(size()));
          const Values told = Passed(sum, codec, 1, owner);
          expected.insert(expected.end(), told.begin(), told.end());
        }
        const Way way = size() > 2 && count > 70000 ? Way::kAuto : Way::kDirect;
        const auto group = MakeGroup({.all_reduce = codec, .way = way});
        ASSERT_EQ(AllReduced(group, in, op), AllValues(size(), expected)) << codec << " " << count;
      }
    }
  }
}

TEST_P(Coded, GatheredSumsAreThoseOfTheFormulaOnEveryRank) {
  for (const std::string codec : {"topk-64of4096+bf16", "int8-b64+sr"}) {
    const AllValues in = Inputs(200001);  // frames beyond those that are gathered for their size
    Values expected = Passed(in[0], codec, 0, 0);
    for (size_t r = 1; r < size(); ++r) expected = Plus(expected, Passed(in[r], codec, 0, r));
    for (const Way way : {Way::kGather, Way::kAuto}) {
      if (way == Way::kAuto && size() > 2 && !codec.starts_with("topk")) continue;
      const auto group = MakeGroup({.all_reduce = codec, .way = way});
      EXPECT_EQ(AllReduced(group, in), AllValues(size(), expected)) << codec;
    }
  }
}

TEST_P(Coded, ARingGivesTheSumsOfItsWay) {
  const AllValues in = Inputs(10007);
  Values expected;
  AllValues parts;
  for (size_t owner = 0; owner < size(); ++owner) {
    parts.push_back(RingPart(PartsOf(in, owner), owner, "int8-b64"));
    const Values told = Passed(parts.back(), "int8-b64", 0, owner);
    expected.insert(expected.end(), told.begin(), told.end());
  }
  const auto group =
      MakeGroup({.all_reduce = "int8-b64", .reduce_scatter = "int8-b64", .way = Way::kRing});
  EXPECT_EQ(AllReduced(group, in), AllValues(size(), expected));
  AllValues x = in, out(size());
  std::vector<Outcome> outcomes(size());
  std::vector<int64_t> counts;
  for (const Values& part : parts) counts.push_back(static_cast<int64_t>(part.size()));
  for (size_t r = 0; r < size(); ++r) {
    out[r].resize(parts[r].size());
    group[r]->ReduceScatter(F32(x[r]), counts, F32(out[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
  EXPECT_EQ(out, parts);
}

TEST_P(Coded, ReduceScatterOfUnevenPartsOfBf16IsRoundedOnce) {
  const auto group = MakeGroup({.reduce_scatter = "int8-b64"});
  std::vector<int64_t> counts;
  for (size_t r = 0; r < size(); ++r) counts.push_back(static_cast<int64_t>(r * 1000));  // 0 too
  const size_t total = 1000 * size() * (size() - 1) / 2;
  std::vector<std::vector<uint16_t>> in(size()), out(size());
  AllValues values(size());
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {
    for (const float value : Noise(total, r)) {
      in[r].push_back(F32ToBf16(value));
      values[r].push_back(Bf16ToF32(in[r].back()));
    }
    out[r].resize(r * 1000);
    group[r]->ReduceScatter(Tensor1D(in[r], ElementType::kBF16), counts,
                            Tensor1D(out[r], ElementType::kBF16), ReduceOp::kAvg,
                            outcomes[r].done());
  }
  ptrdiff_t first = 0;
  for (size_t owner = 0; owner < size(); ++owner) {
    ASSERT_EQ(outcomes[owner].Wait(), absl::OkStatus());
    AllValues parts;
    for (const Values& x : values) {
      parts.emplace_back(x.begin() + first, x.begin() + first + counts[owner]);
    }
    first += counts[owner];
    const Values mean = Over(DirectPart(parts, owner, "int8-b64"), static_cast<float>(size()));
    for (size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(out[owner][i], F32ToBf16(mean[i])) << i;
  }
}

TEST_P(Coded, AllReduceOfBf16IsRoundedOnce) {
  const auto group = MakeGroup({.all_reduce = "int8-b64", .way = Way::kDirect});
  std::vector<std::vector<uint16_t>> x(size());
  AllValues values(size());
  for (size_t r = 0; r < size(); ++r) {
    for (const float value : Noise(5000, r)) {
      x[r].push_back(F32ToBf16(value));
      values[r].push_back(Bf16ToF32(x[r].back()));
    }
  }
  std::vector<uint16_t> expected;
  for (size_t owner = 0; owner < size(); ++owner) {
    const Values sum = DirectPart(PartsOf(values, owner), owner, "int8-b64");
    for (const float value : Passed(sum, "int8-b64", 1, owner)) {
      expected.push_back(F32ToBf16(value));
    }
  }
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {
    group[r]->AllReduce(Tensor1D(x[r], ElementType::kBF16), ReduceOp::kSum, outcomes[r].done());
  }
  for (size_t r = 0; r < size(); ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    EXPECT_EQ(x[r], expected) << r;
  }
}

TEST_P(Coded, AllGatherGivesEveryRankWhatFramesHoldItsOwnIncluded) {
  const auto group = MakeGroup({.all_gather = "int4-b64+sr"});
  constexpr size_t kCount = 5000;
  const AllValues in = Inputs(kCount);
  Values expected;
  for (size_t r = 0; r < size(); ++r) {
    const Values told = Passed(in[r], "int4-b64+sr", 0, r);
    expected.insert(expected.end(), told.begin(), told.end());
  }
  AllValues out(size(), Values(kCount * size()));
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {  // the input is its place of the output
    float* const own = out[r].data() + r * kCount;
    std::copy(in[r].begin(), in[r].end(), own);
    group[r]->AllGather({.values = own, .type = ElementType::kF32, .dims = {kCount}}, F32(out[r]),
                        outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
  EXPECT_EQ(out, AllValues(size(), expected));
  EXPECT_EQ(Sent(*group[0], "int4-b64+sr") + Sent(*group[0], "int4-b64"),
            static_cast<int64_t>(size() - 1) * (64 + 160 + 2500 + kHeader));
}

TEST_P(Coded, BytesAreThoseOfTheFormula) {
  // Frames of several packets and pieces.
  constexpr size_t kPart = 300000;
  const size_t count = kPart * size();
  const auto n = static_cast<int64_t>(size());
  const AllValues in = Inputs(count);
  for (const Way way : {Way::kDirect, Way::kRing, Way::kGather}) {
    const auto group = MakeGroup({.all_reduce = "int8-b64", .way = way});
    const AllValues got = AllReduced(group, in);
    for (size_t r = 1; r < size(); ++r) ASSERT_EQ(got[r], got[0]);
    const auto told = static_cast<double>(way == Way::kGather ? (n - 1) * Int8Frame(count)
                                                              : 2 * (n - 1) * Int8Frame(kPart));
    for (const auto& rank : group) {
      EXPECT_NEAR(static_cast<double>(Sent(*rank, "int8-b64")) / told, 1, 0.005);
      EXPECT_EQ(Sent(*rank, "none"), way == Way::kRing ? (n - 2) * kHeader : 0);
    }
  }
}

// A value that is encoded is off by half a step, and by what bf16 makes of the step (2^-9) in 127.
TEST_P(Coded, ErrorsStayWithinTheCodecsBound) {
  const AllValues in = Inputs(64 * 8 * size());
  for (const Way way : {Way::kDirect, Way::kGather, Way::kRing}) {
    const auto group = MakeGroup({.all_reduce = "int8-b64", .way = way});
    const Values got = AllReduced(group, in)[0];
    double largest = 0;
    for (const Values& x : in) {
      for (const float value : x) largest = std::max(largest, std::fabs(double{value}));
    }
    const auto n = static_cast<double>(size());
    const double half_step = (0.5 / 127 + 1.0 / 512) * 1.01;
    // Encoded are: n values; n - 1 and their sum; sums of 1, 2, ... n - 1 and of all.
    const double sums = way == Way::kGather ? n : way == Way::kDirect ? 2 * n - 1 : n * (n + 1) / 2;
    for (size_t i = 0; i < got.size(); ++i) {
      double exact = 0;
      for (const Values& x : in) exact += x[i];
      ASSERT_LE(std::fabs(got[i] - exact), sums * largest * half_step * 1.1) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Coded,
                         testing::Values(std::tuple(TransportKind::kLoopback, 2),
                                         std::tuple(TransportKind::kLoopback, 4),
                                         std::tuple(TransportKind::kUcx, 3)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) == TransportKind::kUcx ? "Ucx"
                                                                                  : "Loopback") +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace longhaul
