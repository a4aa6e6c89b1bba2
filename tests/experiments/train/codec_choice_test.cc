#include "experiments/train/codec_choice.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "experiments/train/sample_visits.h"
#include "experiments/train/traffic.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr char kToml[] = R"(seed = 1
[model]
kind = "gpt"
blocks = 4
width = 64
heads = 4
context = 64
vocab = 256
[data]
source = "headers"
[train]
steps = 10
batch_rows = 4
microbatches = 4
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 2
[boundary]
forward = "none"
backward = "none"
[boundary.policy]
by = "accuracy"
forward = ["minmax2-b64", "int4-b64", "int8-b64"]
target_nmse = 0.05
[net]
transport = "loopback"
[eval]
rows = 1
)";

absl::StatusOr<RunSpec> ReadSpec(const std::vector<std::string>& sets) {
  absl::StatusOr<TomlValue> root = ParseToml(kToml, "run.toml");
  EXPECT_TRUE(root.ok()) << root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  return ReadRunSpec(*root, CatalogNames());
}

CodecChoice::Chosen Choose(const std::vector<std::string>& sets, const std::vector<float>& x) {
  const auto choice = CodecChoice::Of(*ReadSpec(sets));
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice->Choose(Direction::kForward, 0, 1, {x.data(), DType::kF32, {x.size() / 64, 64}}, 7);
}

// Blocks of 64 values. int4-b64: s = bf16(max / 7) = 1, and what lies halfway between codes is off by
// 1/2. Of a block {7, 6.5, 0, ...}: 6.5 goes to the even 6, so NMSE = 0.25 / (49 + 42.25) = 0.00274.
// minmax2-b64: z = 0, s = 7/3, bf16 2.328125: codes 3 and 3, values 6.984375 twice: errors 0.015625
// and 0.484375, NMSE = 0.234863 / 91.25 = 0.00257.
TEST(CodecChoice, ByAccuracyTakesTheCoarsestBelowTheTarget) {
  std::vector<float> x(64 * 4, 0.0f);
  for (size_t block = 0; block < 4; ++block) x[64 * block] = 7, x[64 * block + 1] = 6.5f;
  const auto at = [&](const std::string& target) {
    return Choose({"boundary.policy.target_nmse=" + target}, x);
  };
  EXPECT_EQ(at("0.05").codec, "minmax2-b64");
  EXPECT_THAT(at("0.05").cause, HasSubstr("NMSE 0.002574 < 0.05"));
  EXPECT_EQ(at("0.0026").codec, "minmax2-b64");
  EXPECT_EQ(at("0.0025").codec, "int8-b64") << "int4-b64 is worse here: 0.00274";
  const auto none = at("1e-12");
  EXPECT_EQ(none.codec, "int8-b64");
  EXPECT_THAT(none.cause, HasSubstr("and no finer codec is listed"));
  x[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(at("0.05").cause, HasSubstr("not finite"));
}

TEST(CodecChoice, ByMagnitudeGoesByTheRootMeanSquare) {
  const auto at = [](float value) {
    std::vector<float> x(64 * 4, 0.0f);
    for (size_t i = 0; i < x.size(); i += 4) x[i] = value;  // rms = value / 2
    return Choose({"boundary.policy={by = \"magnitude\", bounds = [0.5, 2.0], forward = "
                   "[\"minmax2-b64\", \"int4-b64\", \"int8-b64\"]}"},
                  x);
  };
  EXPECT_EQ(at(0.96f).codec, "minmax2-b64");
  EXPECT_EQ(at(0.96f).cause, "rms 0.48 < 0.5");
  EXPECT_EQ(at(1.0f).codec, "int4-b64") << "a bound is the next one's";
  EXPECT_EQ(at(4.0f).codec, "int8-b64");
  EXPECT_EQ(at(4.0f).cause, "rms 2 >= 2");
}

// A message of int8-b64 is 112 + 64 + 64 (64 + 2) bytes, 35,200 bit: at 100 Mbit/s 0.352 ms.
TEST(CodecChoice, ByBandwidthTakesTheFinestThatIsThereInTime) {
  const std::vector<float> x(64 * 64, 1.0f);
  const std::string topology = testing::TempDir() + "/links.toml";
  const auto with = [&](const std::string& path_keys, const std::string& target) {
    std::ofstream(topology) << "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n"
                               "[[path]]\nfrom = \"a\"\nto = \"b\"\nboth = true\nrtt_ms = 10\n"
                            << path_keys;
    return ReadSpec({"boundary.policy={by = \"bandwidth\", target_ms = " + target +
                         ", forward = [\"minmax2-b64\", \"int8-b64\", \"none\"]}",
                     "net.clock=simulated", "net.profile=" + topology, "compute.flops_per_s=1e12",
                     "compute.mfu=0.5"});
  };
  const auto chosen = [&](const std::string& target) {
    const auto choice = CodecChoice::Of(*with("rate_mbit = 100\n", target));
    EXPECT_TRUE(choice.ok()) << choice.status();
    return choice->Choose(Direction::kForward, 0, 1, {x.data(), DType::kF32, {64, 64}}, 1);
  };
  EXPECT_EQ(chosen("0.353").codec, "int8-b64");
  EXPECT_EQ(chosen("0.353").cause, "0.352 ms <= 0.353 ms at 100 Mbit/s");
  EXPECT_EQ(chosen("0.351").codec, "minmax2-b64");
  EXPECT_EQ(chosen("1.4").codec, "none") << "112 + 4 x 4096 bytes: 1.32 ms";
  EXPECT_THAT(chosen("0.01").cause, HasSubstr("> 0.01 ms"));
  EXPECT_EQ(CodecChoice::Of(*with("rate_mbit = \"none\"\n", "0.01"))
                ->Choose(Direction::kForward, 1, 0, {x.data(), DType::kF32, {64, 64}}, 1)
                .codec,
            "none")
      << "without a limit all are there in time";
  std::filesystem::remove(topology);
}

TEST(CodecChoice, ListsAreStatelessAndInOrder) {
  const auto why = [](const std::string& list) {
    return std::string(
        CodecChoice::Of(*ReadSpec({"boundary.policy.forward=" + list})).status().message());
  };
  EXPECT_THAT(why("[\"int4-b64+ef\", \"int8-b64\"]"),
              HasSubstr("keeps a state from tensor to tensor"));
  EXPECT_THAT(
      why("[\"int8-b64\", \"int4-b64\"]"),
      HasSubstr("has 'int8-b64' of 4400 bytes a message before 'int4-b64' of 2352; want the "
                "coarsest first"));
  EXPECT_THAT(why("[\"int4-b64\", \"int4-b64\"]"), HasSubstr("want the coarsest first"));
  EXPECT_EQ(why("[\"int4-b64\", \"int8-b64\", \"none\"]"), "");
}

// What is planned follows what was chosen: of ten steps three with each of two codecs, four raw.
TEST(CodecChoice, PlannedBytesFollowTheChanges) {
  const RunSpec spec = *ReadSpec({});
  const auto change = [](int64_t step, const char* to) {
    return CodecSwitchRow{.step = step,
                          .group_index = 0,
                          .boundary = 0,
                          .direction = Direction::kForward,
                          .to_codec = to};
  };
  const std::vector<CodecSwitchRow> switches = {change(4, "int8-b64"), change(7, "none"),
                                                change(1, "int4-b64")};
  double bytes = 0;
  const auto crossings = PlanCrossings(spec, 2, switches);
  for (const PlannedCrossing& c : *crossings) {
    if (c.direction != Direction::kForward) continue;
    bytes += static_cast<double>(c.messages()) * *MessageBytes(c);
  }
  EXPECT_EQ(bytes, 4 * (1 * 2352 + 3 * 4400 + 4 * (112 + 4 * 64 * 64.0))) << "steps 3 to 10";
}

// 800 bytes hold out 12: 788 bytes are 12 windows of 64; 10 steps of 4 rows are 3 epochs and 4 rows.
TEST(SampleVisits, EachWindowComesFirstOnce) {
  const std::string path = testing::TempDir() + "/few.txt";
  std::ofstream(path) << std::string(800, 'x');
  const std::vector<std::string> aqsgd = {"boundary={forward = \"aqsgd4\", backward = \"none\"}",
                                          "data.source=text:" + path};
  const auto visits = [&](std::vector<std::string> more, int64_t done = 0) {
    more.insert(more.begin(), aqsgd.begin(), aqsgd.end());
    const RunSpec spec = *ReadSpec(more);
    return std::pair(spec, VisitsOf(spec, done));
  };
  const auto [spec, whole] = visits({});
  EXPECT_EQ(whole[0].first, 12);
  EXPECT_EQ(whole[0].later, 28);
  EXPECT_EQ(visits({}, 2).second[0].first, 4) << "8 of them had come";
  EXPECT_TRUE(SampleAdvice(spec).empty());
  EXPECT_THAT(SampleAdvice(visits({"train.steps=3"}).first)[0],
              HasSubstr("no sample comes twice (12 rows of 12 windows)"));
  const auto two = visits({"outer={groups = 2, inner_steps = 5, codec = \"none\"}"}).second;
  EXPECT_EQ(two[0].first + two[0].later, 40);
  EXPECT_LE(two[0].first, 12);
  EXPECT_GE(two[0].first, 6);
  // First visits are fp16: 64 + 2 x 4096 bytes; later ones 4 bits and 64 scales.
  const auto crossings = PlanCrossings(spec);
  for (const PlannedCrossing& c : *crossings) {
    if (c.direction != Direction::kForward) continue;
    EXPECT_EQ(c.messages(), 40);
    EXPECT_NEAR(40 * *MessageBytes(c),
                12 * (112 + 64 + 2 * 4096) + 28 * (112 + 64 + 2 * 64 + 4096 / 2), 1e-6);
  }
  EXPECT_EQ(visits({"boundary.warmup_steps=8"}).second[0].first +
                visits({"boundary.warmup_steps=8"}).second[0].later,
            8)
      << "none crosses by sample until then";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace longhaul
