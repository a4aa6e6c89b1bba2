// Collectives with a codec: sites, what stays exact, what is refused, and how ranks that fail end.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/catalog.h"
#include "compressors/numbers/small_floats.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using Collectives = CodecPolicy::Collectives;
using Values = std::vector<float>;

constexpr int64_t kHeader = 112;

std::vector<std::shared_ptr<Group>> MakeGroup(const Cluster& cluster,
                                              const Collectives& collectives,
                                              int64_t min_elements = 1) {
  return cluster.MakeGroup("cases", [&](GroupOptions& options) {
    options.codecs.collectives = collectives;
    options.codecs.min_elements = min_elements;
  });
}

Values Passed(const Values& x) {
  const auto codec = MakeCodec("int8-b64").value();
  const Shape shape{1, x.size()};
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  frame.resize(codec->Encode({x.data(), DType::kF32, shape}, 0, nullptr, frame).value());
  Values decoded(x.size());
  EXPECT_TRUE(DecodeFrame(frame, {decoded.data(), DType::kF32, shape}).ok());
  return decoded;
}
Values Plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Values Slice(const Values& x, size_t first, size_t count) {
  return {x.begin() + static_cast<ptrdiff_t>(first),
          x.begin() + static_cast<ptrdiff_t>(first + count)};
}

CrossingCounters RowOf(const Group& group, int peer, std::string_view codec) {
  for (const CrossingCounters& row : group.counters()) {
    if (row.sent && row.peer == peer && row.codec == codec) return row;
  }
  return {};
}

// Four ranks, two sites of two; 4 x 640 elements.
class Sites : public testing::Test {
 protected:
  Sites() {
    for (size_t r = 0; r < 4; ++r) x_.push_back(Noise(2560, r));
  }
  // Of a part, added up within sites 0 and 1.
  Values Inside(size_t site, size_t first, size_t count) const {
    return Plus(Slice(x_[2 * site], first, count), Slice(x_[2 * site + 1], first, count));
  }
  // Part r as its owner adds it up.
  Values Owned(size_t r) const {
    const Values near = Inside(r / 2, 640 * r, 640), far = Passed(Inside(1 - r / 2, 640 * r, 640));
    return r / 2 == 0 ? Plus(near, far) : Plus(far, near);
  }
  // Frames to the rank of this place in the other site, raw values to the neighbour.
  static void ExpectBytes(const Group& group, int rank, int64_t frames, int64_t frame_elements,
                          int64_t raw_messages, int64_t raw_elements) {
    const int64_t frame = 64 + (frame_elements / 32 + 7) / 8 * 8 + frame_elements + kHeader;
    EXPECT_EQ(RowOf(group, (rank + 2) % 4, "int8-b64").collective_bytes, frames * frame) << rank;
    EXPECT_EQ(RowOf(group, (rank + 2) % 4, "none").collective_bytes, kHeader) << rank;  // its call
    EXPECT_EQ(RowOf(group, rank ^ 1, "none").collective_bytes,
              raw_messages * (4 * raw_elements + kHeader))
        << rank;
    EXPECT_EQ(RowOf(group, (rank ^ 1) ^ 2, "none").collective_bytes, kHeader) << rank;  // the same
  }

  const Cluster cluster_{TransportKind::kLoopback, 4};
  std::vector<Values> x_;
};

TEST_F(Sites, AllReduceAddsUpInsideAndSendsFramesAcross) {
  for (const auto way : {Collectives::Way::kDirect, Collectives::Way::kRing}) {
    const auto group = MakeGroup(cluster_, {.all_reduce = "int8-b64", .way = way, .site_size = 2});
    Values expected;
    for (size_t r = 0; r < 4; ++r) {
      const Values told = Passed(Owned(r));
      expected.insert(expected.end(), told.begin(), told.end());
    }
    auto x = x_;
    std::vector<Outcome> outcomes(4);
    for (size_t r = 0; r < 4; ++r) {
      group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[r].done());
    }
    for (size_t r = 0; r < 4; ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      EXPECT_EQ(x[r], expected) << r;
      ExpectBytes(*group[r], static_cast<int>(r), 2, 640, 4, 640);
    }
  }
}

TEST_F(Sites, GatherEncodesASitesSumOnce) {
  const auto group = MakeGroup(cluster_, {.all_reduce = "int8-b64", .site_size = 2});
  Values expected;
  for (size_t place = 0; place < 2; ++place) {
    const Values half =
        Plus(Passed(Inside(0, 1280 * place, 1280)), Passed(Inside(1, 1280 * place, 1280)));
    for (const float value : half) expected.push_back(value / 4);
  }
  auto x = x_;
  std::vector<Outcome> outcomes(4);
  for (size_t r = 0; r < 4; ++r) {
    group[r]->AllReduce(F32(x[r]), ReduceOp::kAvg, outcomes[r].done());
  }
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    EXPECT_EQ(x[r], expected) << r;
    ExpectBytes(*group[r], static_cast<int>(r), 1, 1280, 2, 1280);
  }
}

TEST_F(Sites, ReduceScatterAndAllGather) {
  const auto group =
      MakeGroup(cluster_, {.reduce_scatter = "int8-b64", .all_gather = "int8-b64", .site_size = 2});
  auto x = x_;
  std::vector<Values> parts(4, Values(640)), all(4, Values(2560));
  std::vector<Outcome> scattered(4), gathered(4);
  for (size_t r = 0; r < 4; ++r) {
    group[r]->ReduceScatter(F32(x[r]), {640, 640, 640, 640}, F32(parts[r]), ReduceOp::kSum,
                            scattered[r].done());
  }
  Values expected;
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_EQ(scattered[r].Wait(), absl::OkStatus());
    EXPECT_EQ(parts[r], Owned(r)) << r;
    const Values told = Passed(parts[r]);
    expected.insert(expected.end(), told.begin(), told.end());
  }
  for (size_t r = 0; r < 4; ++r) {
    group[r]->AllGather(F32(parts[r]), F32(all[r]), gathered[r].done());
  }
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_EQ(gathered[r].Wait(), absl::OkStatus());
    EXPECT_EQ(all[r], expected) << r;
  }
}

TEST_F(Sites, OneSiteIsExact) {
  const auto group = MakeGroup(cluster_, {.all_reduce = "int8-b64", .site_size = 4});
  Values expected = Plus(Plus(Plus(x_[0], x_[1]), x_[2]), x_[3]);
  auto x = x_;
  std::vector<Outcome> outcomes(4);
  for (size_t r = 0; r < 4; ++r) {
    group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    EXPECT_EQ(x[r], expected) << r;
  }
}

constexpr std::string_view kAll = "int8-b64";
Collectives All(std::string_view codec) {
  const std::string name(codec);
  return {.all_reduce = name, .reduce_scatter = name, .all_gather = name};
}

TEST(CodedCases, IntegersOtherReductionsAndShortTensorsStayExact) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = MakeGroup(cluster, All(kAll), 1000);
  std::vector<std::vector<int64_t>> whole(2, std::vector<int64_t>(3000, (int64_t{1} << 40) + 1));
  std::vector<Values> larger = {Noise(3000, 1), Noise(3000, 2)},
                      brief = {Noise(999, 3), Noise(999, 4)}, none(2);
  Values most = larger[0], sum = Plus(brief[0], brief[1]);
  for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], larger[1][i]);
  std::vector<Outcome> outcomes(8);
  for (size_t r = 0; r < 2; ++r) {
    group[r]->AllReduce(Tensor1D(whole[r], ElementType::kI64), ReduceOp::kSum,
                        outcomes[4 * r].done());
    group[r]->AllReduce(F32(larger[r]), ReduceOp::kMax, outcomes[4 * r + 1].done());
    group[r]->AllReduce(F32(brief[r]), ReduceOp::kSum, outcomes[4 * r + 2].done());
    group[r]->AllReduce(F32(none[r]), ReduceOp::kSum, outcomes[4 * r + 3].done());
  }
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(whole[r], std::vector<int64_t>(3000, (int64_t{1} << 41) + 2));
    EXPECT_EQ(larger[r], most);
    EXPECT_EQ(brief[r], sum);
    EXPECT_EQ(RowOf(*group[r], static_cast<int>(1 - r), kAll).collective_messages, 0);
    EXPECT_THAT(group[r]->NothingEncoded(), HasSubstr("the longest has 999 elements"));
  }
}

TEST(CodedCases, ARankAloneKeepsItsValues) {
  const Cluster cluster(TransportKind::kLoopback, 1);
  const auto group = MakeGroup(cluster, All("int4-b64"));
  Values x = Noise(100, 1);
  const Values before = x;
  Outcome outcome;
  group[0]->AllReduce(F32(x), ReduceOp::kSum, outcome.done());
  EXPECT_EQ(outcome.Wait(), absl::OkStatus());
  EXPECT_EQ(x, before);
}

// All ranks are told, and the group goes on.
void ExpectRefused(const std::vector<std::shared_ptr<Group>>& group, std::vector<Values> x,
                   std::string_view words) {
  std::vector<Outcome> outcomes(group.size()), after(group.size());
  for (size_t r = 0; r < group.size(); ++r) {
    group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) {
    const absl::Status status = outcome.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(words)));
  }
  for (size_t r = 0; r < group.size(); ++r) group[r]->Barrier(after[r].done());
  for (const Outcome& outcome : after) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// What stands for a codec in a comparison: finite values as they were, others by their kind.
bool SameKind(float got, float want) {
  return std::isnan(want) ? std::isnan(got) : std::isinf(want) ? got == want : std::isfinite(got);
}

std::vector<std::string> CodecsOfCollectives() {
  std::vector<std::string> names = CodecNames();
  for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
  std::erase_if(names, [](const std::string& name) {
    return name == "none" || MakeCodec(name).value()->NewState({1, 1}) != nullptr;
  });
  for (const char* name : {"int8-b64+sr", "topk-64of4096+fp16"}) names.emplace_back(name);
  return names;
}

// Whatever the codec and the way: each rank gets NaN and Inf where the exact sum has them, and every
// rank the same; also as the one rank that is handed a part of the sum.
TEST(CodedCases, NanAndInfReachEveryRankAsTheyAre) {
  const Cluster cluster(TransportKind::kLoopback, 4);
  constexpr size_t kCount = 8192;  // whole frames
  for (const std::string& codec : CodecsOfCollectives()) {
    for (const auto way :
         {Collectives::Way::kDirect, Collectives::Way::kGather, Collectives::Way::kRing}) {
      Collectives collectives = All(codec);
      collectives.way = way;
      const auto group = MakeGroup(cluster, collectives);
      std::vector<Values> x(4, Noise(kCount, 3));
      x[1][7] = kInf;
      x[2][kCount - 1] = kNan;
      x[0][4000] = kInf;
      x[3][4000] = -kInf;
      Values want = Plus(Plus(Plus(x[0], x[1]), x[2]), x[3]);
      const std::vector<Values> in = x;
      std::vector<Values> parts(4, Values(kCount / 4)), all(4, Values(4 * kCount));
      std::vector<Outcome> outcomes(12);
      for (size_t r = 0; r < 4; ++r) {
        group[r]->ReduceScatter(F32(x[r]), std::vector<int64_t>(4, kCount / 4), F32(parts[r]),
                                ReduceOp::kAvg, outcomes[3 * r].done());
        group[r]->AllGather(F32(x[r]), F32(all[r]), outcomes[3 * r + 1].done());
      }
      for (size_t r = 0; r < 4; ++r) {
        ASSERT_EQ(outcomes[3 * r].Wait(), absl::OkStatus()) << codec;
        ASSERT_EQ(outcomes[3 * r + 1].Wait(), absl::OkStatus()) << codec;
      }
      for (size_t r = 0; r < 4; ++r) {
        group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[3 * r + 2].done());
      }
      for (size_t r = 0; r < 4; ++r) {
        ASSERT_EQ(outcomes[3 * r + 2].Wait(), absl::OkStatus()) << codec;
        const std::string where = codec + ", rank " + std::to_string(r);
        for (size_t i = 0; i < kCount; ++i) {
          ASSERT_TRUE(SameKind(x[r][i], want[i])) << where << ", " << i << ": " << x[r][i];
        }
        for (size_t i = 0; i < kCount / 4; ++i) {
          ASSERT_TRUE(SameKind(parts[r][i], want[r * kCount / 4 + i])) << where << ", " << i;
        }
        for (size_t i = 0; i < 4 * kCount; ++i) {
          ASSERT_TRUE(SameKind(all[r][i], in[i / kCount][i % kCount])) << where << ", " << i;
          ASSERT_TRUE(all[r][i] == all[0][i] || std::isnan(all[0][i])) << where << ", " << i;
        }
      }
    }
  }
}

// Frames in pieces, over processes' transport; sums that overflow; a group that goes on.
TEST(CodedCases, AnOverflowOfLongTensorsReachesEveryRank) {
  const Cluster cluster(TransportKind::kUcx, 3);
  constexpr size_t kCount = 1'200'000;
  for (const std::string codec : {"int8-b64", "int4-b64-h64", "bf16"}) {
    for (const auto way : {Collectives::Way::kDirect, Collectives::Way::kGather}) {
      Collectives collectives = All(codec);
      collectives.way = way;
      const auto group = MakeGroup(cluster, collectives);
      std::vector<Values> x(3, Values(kCount, 1.0f)), huge(3, Values(50000, 3e38f));
      x[1][kCount - 5] = kInf;
      for (auto* values : {&x, &huge}) {
        std::vector<Outcome> outcomes(3);
        for (size_t r = 0; r < 3; ++r) {
          group[r]->AllReduce(F32((*values)[r]), ReduceOp::kSum, outcomes[r].done());
        }
        for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
      }
      for (size_t r = 0; r < 3; ++r) {
        EXPECT_EQ(x[r][kCount - 5], kInf) << codec << r;
        EXPECT_NEAR(x[r][7], 3, 0.5) << codec << r;
        EXPECT_EQ(huge[r], Values(50000, kInf)) << codec << r;
      }
      // Rank 1's part that holds the Inf went as it is.
      const int64_t raw = RowOf(*group[1], 0, "none").collective_bytes;
      EXPECT_GT(raw, 0) << codec;
    }
  }
}

// Sums beyond f16 that a codec, or its rounding, would have made finite.
TEST(CodedCases, ASumBeyondF16IsInfOnEveryRank) {
  const Cluster cluster(TransportKind::kLoopback, 4);
  for (const std::string codec : {"fp16", "int8-b64", "q8_0", "topk-64of4096+fp16"}) {
    for (const int site_size : {1, 2}) {
      for (const auto way : {Collectives::Way::kDirect, Collectives::Way::kGather}) {
        const auto group =
            MakeGroup(cluster, {.all_reduce = codec, .way = way, .site_size = site_size});
        std::vector<std::vector<uint16_t>> x(4, std::vector<uint16_t>(6000, F32ToF16Clamped(1)));
        for (auto& values : x) values[11] = F32ToF16Clamped(16384);  // 65536 in all
        std::vector<Outcome> outcomes(4);
        for (size_t r = 0; r < 4; ++r) {
          group[r]->AllReduce(Tensor1D(x[r], ElementType::kF16), ReduceOp::kSum,
                              outcomes[r].done());
        }
        for (size_t r = 0; r < 4; ++r) {
          ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
          EXPECT_EQ(x[r][11], 0x7C00) << codec << ", rank " << r;
          EXPECT_TRUE(std::isfinite(F16ToF32(x[r][12]))) << codec;
        }
      }
    }
  }
}

// Where scales of 16 bits end, and fp16 clamps: exact instead.
TEST(CodedCases, FiniteValuesThatACodecCannotHoldGoAsTheyAre) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  for (const std::string codec : {"fp16", "q8_0", "q4_0", "int4-b64-h64"}) {
    const auto group = MakeGroup(cluster, {.all_reduce = codec});
    std::vector<Values> x(2, Values(640, codec.starts_with("int") ? 1e38f : 1e9f));
    std::vector<Outcome> outcomes(2);
    for (size_t r = 0; r < 2; ++r) {
      group[r]->AllReduce(F32(x[r]), ReduceOp::kAvg, outcomes[r].done());
    }
    for (size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus()) << codec;
      EXPECT_EQ(x[r], Values(640, codec.starts_with("int") ? 1e38f : 1e9f)) << codec;
    }
  }
}

TEST(CodedCases, RanksThatEncodeDifferentlyAreAllTold) {
  const Cluster cluster(TransportKind::kLoopback, 3);
  for (const auto& [other, words] : std::vector<std::pair<Collectives, std::string>>{
           {All("int4-b64"), "sends it as int8-b64, rank 1 as int4-b64"},
           {{}, "sends it as int8-b64, rank 1 exactly"},
           {{.all_reduce = "int8-b64", .way = Collectives::Way::kRing},
            "equal codecs, ways and"}}) {
    const auto group = cluster.MakeGroup("differ", [&](GroupOptions& options) {
      options.codecs.collectives = options.rank == 1 ? other : All(kAll);
    });
    ExpectRefused(group, std::vector<Values>(3, Noise(90000, 1)), words);
  }
}

TEST(CodedCases, OptionsThatMakeNoSenseAreRefused) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto refused = [&](const Collectives& collectives) {
    GroupOptions options{.name = "options", .rank = 0, .size = 2};
    options.codecs.collectives = collectives;
    return Group::Create(cluster.nodes[0], options, cluster.addresses()).status().ToString();
  };
  EXPECT_THAT(refused(All("int4-b64+ef")), HasSubstr("keeps a state per tensor"));
  EXPECT_THAT(refused(All("aqsgd4")), HasSubstr("keeps a state per tensor"));
  EXPECT_THAT(refused(All("int8-b64+sat")), HasSubstr("take it without +sat"));
  EXPECT_THAT(refused(All("int9")), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(refused({.all_reduce = "int8-b64", .site_size = 3}),
              HasSubstr("sites of 3 ranks do not cut a group of 2"));
  EXPECT_THAT(refused({.all_reduce = "int8-b64", .site_size = 0}), HasSubstr("sites of 0 ranks"));
  EXPECT_THAT(refused({.site_size = 2}), HasSubstr("no collective has a codec"));
}

TEST(CodedCases, ARankThatDoesNotComeIsNamedOnEveryRank) {
  const Cluster cluster(TransportKind::kLoopback, 3);
  const auto group = cluster.MakeGroup("late", [&](GroupOptions& options) {
    options.codecs.collectives = {.all_reduce = "int8-b64", .way = Collectives::Way::kRing};
    options.codecs.min_elements = 1;
    options.timeout = absl::Milliseconds(500);
  });
  std::vector<Values> x(3, Noise(90000, 1));
  std::vector<Outcome> outcomes(2);
  for (size_t r = 0; r < 2; ++r) {
    group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) {
    const absl::Status status = outcome.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 did not come to it"));
  }
}

TEST(CodedCases, ManyAtOnceEndOnceEachAlsoWhenTheGroupIsAborted) {
  const Cluster cluster(TransportKind::kUcx, 3);
  constexpr size_t kMany = 24, kPart = 20000;
  for (const bool aborted : {false, true}) {
    const auto group = MakeGroup(cluster, All(kAll));
    std::vector<Values> x(3 * kMany, Noise(3 * kPart, 5)), out(3 * kMany);
    std::vector<Outcome> outcomes(3 * kMany);
    for (size_t k = 0; k < kMany; ++k) {
      for (size_t r = 0; r < 3; ++r) {
        const size_t i = 3 * k + r;
        if (k % 3 == 0) {
          group[r]->AllReduce(F32(x[i]), ReduceOp::kAvg, outcomes[i].done());
        } else if (k % 3 == 1) {
          out[i].resize(kPart);
          group[r]->ReduceScatter(F32(x[i]), {kPart, kPart, kPart}, F32(out[i]), ReduceOp::kSum,
                                  outcomes[i].done());
        } else {
          out[i].resize(9 * kPart);
          group[r]->AllGather(F32(x[i]), F32(out[i]), outcomes[i].done());
        }
        if (aborted && k == kMany / 2 && r == 1) group[1]->Abort(absl::AbortedError("enough"));
      }
    }
    for (const Outcome& outcome : outcomes) {
      const absl::Status status = outcome.Wait();
      EXPECT_TRUE(status.ok() || aborted) << status;
      EXPECT_EQ(outcome.calls(), 1);
    }
    if (aborted) continue;
    for (size_t i = 3; i < x.size(); ++i) {
      // Without noise equal calls have equal bits.
      if (i / 3 % 3 == 0) {
        EXPECT_EQ(x[i], x[0]) << i;
      } else if (i / 3 % 3 == 2) {
        EXPECT_EQ(out[i], out[6]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
