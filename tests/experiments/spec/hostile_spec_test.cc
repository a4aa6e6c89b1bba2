// Whatever a spec says, the answer is a spec within its bounds or one line that names the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec_keys.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/toml_tree.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kLongestMessage = 600;

TomlValue RunTree() { return *ParseToml(kRunToml, "demo.toml"); }

TomlValue CampaignTree() {
  return *ParseToml(std::string(kOneArmToml) + kArmsToml + "rows = 64\n", "demo.toml");
}

// What no number of a spec may be, as TOML.
const std::vector<std::string> kHostile = {"0",
                                           "-1",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "1e308",
                                           "-1e308",
                                           "nan",
                                           "inf",
                                           "-inf",
                                           "1e-308",
                                           "\"\"",
                                           "\"\\u0000\"",
                                           "\"a\\nb\"",
                                           "true",
                                           "[]",
                                           "[1]",
                                           "{}",
                                           "{a = 1}",
                                           "[[[[1]]]]",
                                           '"' + std::string(100'000, 'x') + '"'};

bool OneLine(const absl::Status& status) {
  const std::string message(status.message());
  return !message.empty() && message.size() <= kLongestMessage &&
         std::none_of(message.begin(), message.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

TomlValue Value(const std::string& toml) {
  const absl::StatusOr<TomlValue> root = ParseToml("v = " + toml, "demo.toml");
  return root.ok() ? *Find(*root, "v") : TomlValue{};
}

std::string Path(const SpecKey& key) {
  return key.table.empty() ? std::string(key.name) : fmt::format("{}.{}", key.table, key.name);
}

void ExpectWithinBounds(RunSpec spec, const std::string& given) {
  for (const SpecKey& key : SpecKeys()) {
    SCOPED_TRACE(given + " " + Path(key));
    if (const auto* whole = std::get_if<Whole>(&key.domain)) {
      if (const auto* get = std::get_if<SpecKey::Get<int64_t>>(&key.field)) {
        EXPECT_GE(*(*get)(spec), whole->least);
        EXPECT_LE(*(*get)(spec), whole->most);
      }
    }
    if (const auto* real = std::get_if<Real>(&key.domain)) {
      const auto* maybe = std::get_if<SpecKey::Get<std::optional<double>>>(&key.field);
      const std::optional<double> value =
          maybe != nullptr ? *(*maybe)(spec) : *std::get<SpecKey::Get<double>>(key.field)(spec);
      EXPECT_TRUE(!value || (*value >= real->least && *value <= real->most));
    }
  }
  EXPECT_GE(Steps(spec), 1);
  EXPECT_GE(TrainTokens(spec), 1);
  EXPECT_LE(TrainTokens(spec), kMaxTokens);
  EXPECT_LE(spec.train.warmup_steps, Steps(spec));
}

// Every key x every hostile value. Some are fine (seed = 0): then the spec is within its bounds.
TEST(HostileSpec, EveryKeyWithEveryHostileValueIsRefusedInOneLineOrWithinItsBounds) {
  int refused = 0, taken = 0;
  for (const SpecKey& key : SpecKeys()) {
    for (const std::string& hostile : kHostile) {
      TomlValue root = RunTree();
      ASSERT_TRUE(SetByPath(root, Path(key), Value(hostile)).ok());
      const absl::StatusOr<RunSpec> spec = ReadRunSpec(root, TestNames());
      const std::string given = Path(key) + " = " + hostile.substr(0, 40);
      if (spec.ok()) {
        ++taken;
        ExpectWithinBounds(*spec, given);
        continue;
      }
      ++refused;
      EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << given;
      EXPECT_TRUE(OneLine(spec.status())) << given << ": " << spec.status();
      EXPECT_THAT(std::string(spec.status().message()), StartsWith("demo.toml:1: ")) << given;
      EXPECT_THAT(std::string(spec.status().message()), HasSubstr(std::string(key.name))) << given;
    }
  }
  EXPECT_GT(refused, 600);
  EXPECT_LT(taken, 80);
}

TEST(HostileSpec, EachBoundIsAllowedAndOneBeyondIsNot) {
  for (const SpecKey& key : SpecKeys()) {
    const auto* whole = std::get_if<Whole>(&key.domain);
    if (whole == nullptr) continue;
    for (const auto& [value, in] :
         {std::pair{whole->least, true}, {whole->least - 1, false}, {whole->most, true}}) {
      TomlValue root = RunTree();
      ASSERT_TRUE(SetByPath(root, Path(key), TomlValue{value, "demo.toml:1"}).ok());
      const absl::Status status = ReadRunSpec(root, TestNames()).status();
      const std::string out_of_range = fmt::format("'{}' is {}; want {}", Path(key), value,
                                                   RangeText(whole->least, whole->most));
      EXPECT_EQ(std::string(status.message()).find(out_of_range) == std::string::npos, in)
          << status;
    }
    if (whole->most == std::numeric_limits<int64_t>::max()) continue;
    TomlValue root = RunTree();
    ASSERT_TRUE(SetByPath(root, Path(key), TomlValue{whole->most + 1, "demo.toml:1"}).ok());
    EXPECT_THAT(std::string(ReadRunSpec(root, TestNames()).status().message()),
                HasSubstr(fmt::format("'{}' is {}; want ", Path(key), whole->most + 1)));
  }
}

TEST(HostileSpec, EveryRequiredKeyThatIsMissingIsNamed) {
  int required = 0;
  for (const SpecKey& key : SpecKeys()) {
    TomlValue root = RunTree();
    Erase(root, Path(key));
    const absl::Status status = ReadRunSpec(root, TestNames()).status();
    if (!key.required) continue;
    ++required;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + Path(key) + "' is missing"));
  }
  EXPECT_EQ(required, 17);
}

TEST(HostileSpec, ProductsAreBoundedWhereEachKeyIsInItsRange) {
  const auto error = [](const std::vector<std::string>& sets) {
    TomlValue root = RunTree();
    for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
    return std::string(ReadRunSpec(root, TestNames()).status().message());
  };
  EXPECT_THAT(error({"outer.groups=1024", "outer.inner_steps=1", "outer.codec=none"}),
              HasSubstr("'outer.groups' = 1024 with schedule.stages = 2; want a product of at "
                        "most 1024 ranks"));
  EXPECT_THAT(error({"model.blocks=1024", "schedule.stages=1024", "train.batch_rows=65536",
                     "train.microbatches=65536", "train.tokens=1_000_000_000_000"}),
              HasSubstr("want a product of at most 1048576"));
  TomlValue root = RunTree();
  Erase(root, "train.tokens");
  ASSERT_TRUE(SetByPath(root, "train.steps=1_000_000_000").ok());
  ASSERT_TRUE(SetByPath(root, "train.batch_rows=1048576").ok());
  ASSERT_TRUE(SetByPath(root, "model.context=1048576").ok());
  EXPECT_THAT(std::string(ReadRunSpec(root, TestNames()).status().message()),
              HasSubstr("makes 1000000000 steps of 1099511627776 tokens; want at most"));
}

TEST(HostileSpec, WarmUpBeyondTheRunIsRefusedByTheSpec) {
  TomlValue root = RunTree();
  ASSERT_TRUE(SetByPath(root, "train.warmup_steps=195").ok());
  EXPECT_TRUE(ReadRunSpec(root, TestNames()).ok());
  ASSERT_TRUE(SetByPath(root, "train.warmup_steps=196").ok());
  EXPECT_EQ(std::string(ReadRunSpec(root, TestNames()).status().message()),
            "--set train.warmup_steps=196: 'train.warmup_steps' is 196; want 0 to 195 steps");
}

TEST(HostileCampaign, EveryKeyWithEveryHostileValueIsRefusedInOneLineOrExpandsToSpecsInBounds) {
  int refused = 0;
  for (const char* key : {"campaign",
                          "campaign.name",
                          "campaign.question",
                          "campaign.seeds",
                          "campaign.d0_tokens",
                          "campaign.budgets",
                          "campaign.control_budgets",
                          "campaign.primary",
                          "campaign.assumed_sigma_nat",
                          "campaign.assumed_rho",
                          "campaign.assumed_slope_nat",
                          "campaign.warmup_share",
                          "arm",
                          "campaign.tier",
                          "campaign.blocks",
                          "campaign.codecs",
                          "campaign.noise_codecs",
                          "model",
                          "train",
                          "train.lr",
                          "train.warmup_steps",
                          "schedule",
                          "net"}) {
    for (const std::string& hostile : kHostile) {
      for (const std::string& value : {hostile, "[" + hostile + "]", "[1.0, " + hostile + "]"}) {
        TomlValue root = CampaignTree();
        ASSERT_TRUE(SetByPath(root, key, Value(value)).ok());
        const absl::StatusOr<CampaignSpec> campaign = ReadCampaign(root, TestNames());
        const std::string given = fmt::format("{} = {}", key, value.substr(0, 40));
        if (campaign.ok()) {
          for (const PlannedRun& run : campaign->runs) ExpectWithinBounds(run.spec, given);
          continue;
        }
        ++refused;
        EXPECT_EQ(campaign.status().code(), absl::StatusCode::kInvalidArgument) << given;
        EXPECT_TRUE(OneLine(campaign.status())) << given << ": " << campaign.status();
      }
    }
  }
  EXPECT_GT(refused, 900);
}

// With a tier the file is expanded before it is checked.
TEST(HostileCampaign, KeysThatBlocksAreExpandedFromAreRefusedInOneLineOrExpandWithinBounds) {
  int refused = 0;
  for (const char* key :
       {"campaign", "campaign.seeds", "campaign.budgets", "campaign.control_budgets",
        "campaign.primary", "campaign.tier", "campaign.blocks", "campaign.codecs", "arm", "model",
        "model.blocks", "train", "train.lr", "train.batch_rows", "train.microbatches", "schedule",
        "schedule.cuts", "boundary", "boundary.cuts"}) {
    for (const std::string& hostile : kHostile) {
      for (const std::string& value : {hostile, "[" + hostile + "]", "[\"R\", " + hostile + "]"}) {
        TomlValue root = CampaignTree();
        Erase(root, "campaign.budgets");
        ASSERT_TRUE(SetByPath(root, "campaign.tier=smoke").ok());
        ASSERT_TRUE(SetByPath(root, "campaign.blocks=[\"R\", \"A\", \"P\", \"L\", \"T\"]").ok());
        ASSERT_TRUE(SetByPath(root, key, Value(value)).ok());
        const absl::StatusOr<CampaignSpec> campaign = ReadCampaign(root, CatalogNames());
        const std::string given = fmt::format("{} = {}", key, value.substr(0, 40));
        if (campaign.ok()) {
          for (const PlannedRun& run : campaign->runs) ExpectWithinBounds(run.spec, given);
          continue;
        }
        ++refused;
        EXPECT_EQ(campaign.status().code(), absl::StatusCode::kInvalidArgument) << given;
        EXPECT_TRUE(OneLine(campaign.status())) << given << ": " << campaign.status();
      }
    }
  }
  EXPECT_GT(refused, 900);
}

TEST(HostileCampaign, ArmsTimesSeedsAreBoundedBeforeTheyExpand) {
  std::string seeds;
  for (int i = 0; i < 2000; ++i) seeds += fmt::format("{},", i);
  TomlValue root = CampaignTree();
  ASSERT_TRUE(SetByPath(root, "campaign.seeds", Value("[" + seeds + "]")).ok());
  EXPECT_EQ(std::string(ReadCampaign(root, TestNames()).status().message()),
            "demo.toml:7: 1 arms and 2 budgets at 2000 seeds; want at most 256 arms and 4096 runs");
}

TEST(HostileToml, KeysOfManyPartsAndDeepBracketsAreRefusedBeforeTheyAreParsed) {
  std::string key = "a";
  for (int i = 0; i < 300'000; ++i) key += ".a";
  const std::string inside = key.substr(0, 200'000);
  for (const std::string& text :
       {inside + " = 1\n", "[" + inside + "]\n", "[[" + inside + "]]\n", "x = {" + inside + " = 1}",
        "x = [{a = 1, " + inside + " = 1}]", std::string(100'000, '[') + "\n",
        "x = " + std::string(100'000, '['), "'''\n'''." + inside, "\"\\\"\"." + inside,
        "a = \"\"\"\n\\\"\"\"\"\"\n" + inside, "# \"\n" + inside, "a = ''\n" + inside}) {
    const absl::Status status = ParseToml(text, "demo.toml").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(OneLine(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::AnyOf(HasSubstr("a key of more than 8 parts"),
                               HasSubstr("brackets more than 16 deep")));
  }
  EXPECT_THAT(std::string(ParseToml(key + " = 1", "demo.toml").status().message()),
              HasSubstr("longer than 262144 bytes"));
  TomlValue root = RunTree();
  const absl::Status set = SetByPath(root, key + "=1");
  EXPECT_EQ(set.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(OneLine(set)) << set;
}

TEST(HostileToml, DotsAndBracketsInsideStringsAndCommentsAreText) {
  const std::string dots(1000, '.'), brackets(1000, '[');
  const absl::StatusOr<TomlValue> root =
      ParseToml("a = \"" + dots + brackets + "\" # " + dots + brackets + "\nb = '" + dots +
                    "'\nc = \"\"\"\n\"" + dots + "\\\"\"\"\"\nd = '''" + brackets +
                    "'''''\ne = \"\\\\\"\nf.g.h = [[1, 2.5], [3]]\n",
                "demo.toml");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(std::get<std::string>(Find(*root, "a")->value), dots + brackets);
  EXPECT_EQ(std::get<std::string>(Find(*root, "d")->value), brackets + "''");
  EXPECT_EQ(std::get<std::string>(Find(*root, "e")->value), "\\");
}

TEST(HostileToml, FileWithoutAnEndIsRefusedAfterWhatASpecMayHave) {
  EXPECT_THAT(std::string(ReadTomlFile("/dev/zero").status().message()),
              HasSubstr("/dev/zero: is longer than 262144 bytes"));
  EXPECT_THAT(std::string(ReadTomlFile("/tmp").status().message()),
              HasSubstr("/tmp: is a folder; want a file"));
}

TEST(HostileSet, AnIntegerBeyond64BitsIsSaidToBeOne) {
  TomlValue root = *ParseToml(kRunToml, "demo.toml");
  for (const char* digits : {"12345678901234567890", "-99999999999999999999"}) {
    EXPECT_EQ(SetByPath(root, std::string("train.steps=") + digits).message(),
              std::string("--set train.steps=") + digits + ": '" + digits +
                  "' is no integer (64 bits, no zero ahead)");
  }
}

}  // namespace
}  // namespace longhaul
