// What files held that a spec names: as text, in plans, between runs.
#include "experiments/record/file_contents.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "compressors/numbers/sha256.h"
#include "experiments/record/record.h"
#include "experiments/spec/spec_keys.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kOne(64, 'a'), kOther(64, 'b');

FileContent Data(const std::string& sha256) {
  return {.key = "data.source", .value = "text:/a b.txt", .sha256 = sha256, .bytes = 7, .files = 1};
}

TEST(FileContents, TextComesBackAndWhatIsNoLineIsLeftOut) {
  const std::string text = ContentsText(std::vector{Data(kOne)});
  EXPECT_EQ(text, "data.source " + kOne + " 7 1 text:/a b.txt\n");
  const auto back = ReadContents("nonsense\n" + text);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].value, "text:/a b.txt");
  EXPECT_EQ(back[0].sha256, kOne);
  EXPECT_EQ(back[0].bytes, 7);
}

TEST(FileContents, AConflictNamesTheKeyAndBothHashes) {
  EXPECT_EQ(ContentConflict(std::vector{Data(kOne)}, std::vector{Data(kOne)}), "");
  EXPECT_EQ(ContentConflict(std::vector{Data(kOne)}, std::vector{Data(kOther)}),
            "data.source (text:/a b.txt): SHA-256 aaaaaaaaaaaaaaaa there, bbbbbbbbbbbbbbbb here");
  FileContent elsewhere = Data(kOther);
  elsewhere.value = "text:/c.txt";  // another file: the specs say so
  EXPECT_EQ(ContentConflict(std::vector{Data(kOne)}, std::vector{elsewhere}), "");
}

// A key whose value is free text may be a path: it says what it names, or stands here.
TEST(FileContents, EveryKeyThatMayBeAPathSaysWhatItNames) {
  const std::set<std::string> no_path = {"train.device", "net.congestion_control"};
  std::set<std::string> reads;
  for (const SpecKey& key : SpecKeys()) {
    const bool text = std::holds_alternative<Line>(key.domain);
    const auto* known = std::get_if<Known>(&key.domain);
    const bool profile = known != nullptr && known->names == &SpecNames::profile;
    const auto* choice = std::get_if<OneOf>(&key.domain);
    const bool python = choice != nullptr && choice->or_python;
    if ((text || profile || python) && !no_path.contains(key.path())) {
      EXPECT_NE(key.names, Names::kNothing) << key.path() << ": may be a path";
    } else {
      EXPECT_EQ(key.names, Names::kNothing) << key.path();
    }
    if (key.names == Names::kNothing) continue;
    EXPECT_TRUE(std::holds_alternative<SpecKey::Get<std::string>>(key.field)) << key.path();
    if (key.names != Names::kOutput) reads.insert(key.path());
  }
  EXPECT_THAT(reads,
              testing::ElementsAre("checkpoint.from", "data.eval", "data.source", "model.init",
                                   "net.profile", "outer.algorithm", "schedule.csv"));
}

TEST(FileContents, ASpecMayPinWhatItsFilesHold) {
  TomlValue root = *ParseToml(kRunToml, "demo.toml");
  const std::string pin = "[files]\n\"data.source\" = \"" + kOne + "\"\n";
  root = *ParseToml(std::string(kRunToml) + pin, "demo.toml");
  const absl::StatusOr<RunSpec> spec = ReadRunSpec(root, TestNames());
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->files.size(), 1u);
  EXPECT_EQ(spec->files[0].value, "headers");
  EXPECT_EQ(spec->files[0].sha256, kOne);
  for (const auto& [line, why] :
       {std::pair("\"data.source\" = \"12\"", "is no SHA-256"),
        {"\"model.save\" = \"\"", "is of no key that names files"},
        {"\"model.init\" = \"\"", "is of a key that this spec does not give"}}) {
    root = *ParseToml(std::string(kRunToml) + "[files]\n" + line + "\n", "demo.toml");
    EXPECT_THAT(std::string(ReadRunSpec(root, TestNames()).status().message()),
                AllOf(HasSubstr("demo.toml:"), HasSubstr(why)));
  }
}

class Plans : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static ExperimentRow Plan(const std::string& sha256, const std::string& frozen = "1") {
    ExperimentRow row{.kind = ExperimentKind::kCampaign,
                      .name = "c",
                      .question = "?",
                      .plan_text = "[plan]\nname = \"c\"\n\n[frozen]\n\"data_hash\" = \"" + frozen +
                                   "\"\n\n[[arm]]\nname = \"x\"\n"};
    if (!sha256.empty()) row.facts[kNamedFilesFact] = ContentsText(std::vector{Data(sha256)});
    return row;
  }
  Record Open(const std::string& name) const {
    return *Record::Open(folder_ + "/" + name, Record::Mode::kWrite);
  }
  static void AddRun(Record& record, int64_t experiment, int64_t seed = 1,
                     const std::string& sha256 = "") {
    RunRow row;
    row.experiment_id = experiment;
    row.arm = "x";
    row.seed = seed;
    if (!sha256.empty()) row.facts[kNamedFilesFact] = ContentsText(std::vector{Data(sha256)});
    ASSERT_TRUE(record.FinishRun(*record.BeginRun(row), RunStatus::kOk, "").ok());
  }
  const std::string folder_ = testing::TempDir() + "plans_" + std::to_string(getpid());
};

TEST_F(Plans, AreOfTheirFilesToo) {
  Record record = Open("a");
  const int64_t experiment = *record.BeginExperiment(Plan(kOne));
  AddRun(record, experiment);
  EXPECT_EQ(*record.BeginExperiment(Plan(kOne)), experiment);
  // The hash that stands on every figure has them.
  const std::string plan = Plan(kOne).plan_text;
  EXPECT_EQ(record.Experiments()->front().plan_sha256,
            Sha256Hex(plan + "\n[files]\ndata.source " + kOne + " 7 1 text:/a b.txt\n"));
  const absl::Status other = record.BeginExperiment(Plan(kOther)).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("has 1 runs of this plan ('c')"),
                    HasSubstr("data.source (text:/a b.txt): SHA-256 aaaaaaaaaaaaaaaa there, "
                              "bbbbbbbbbbbbbbbb here")));
  EXPECT_EQ(record.Experiments()->size(), 1u);
  // The tokens' own hash, which older plans have alone.
  EXPECT_THAT(std::string(record.BeginExperiment(Plan(kOne, "2")).status().message()),
              HasSubstr("data_hash: SHA-256 1 there, 2 here"));
}

TEST_F(Plans, WithoutARunAreReplacedAndOlderOnesGoOn) {
  Record record = Open("a");
  const int64_t untrained = *record.BeginExperiment(Plan(kOne));
  const int64_t now = *record.BeginExperiment(Plan(kOther));
  EXPECT_NE(untrained, now);
  Record old = Open("old");
  const int64_t experiment = *old.BeginExperiment(Plan(""));
  AddRun(old, experiment);
  EXPECT_EQ(old.Experiments()->front().plan_sha256, Sha256Hex(Plan("").plan_text));
  EXPECT_EQ(*old.BeginExperiment(Plan(kOne)), experiment);
}

TEST_F(Plans, OfOtherFilesAreNotMerged) {
  Record a = Open("a"), b = Open("b"), into = Open("into");
  AddRun(a, *a.BeginExperiment(Plan(kOne)), 1);
  AddRun(b, *b.BeginExperiment(Plan(kOther)), 2);
  ASSERT_TRUE(into.TakeFrom(a).ok());
  EXPECT_THAT(std::string(into.TakeFrom(b).status().message()),
              AllOf(HasSubstr("aaaaaaaaaaaaaaaa there"), HasSubstr("bbbbbbbbbbbbbbbb here")));
  EXPECT_EQ(into.Runs(1)->size(), 1u);
}

}  // namespace
}  // namespace longhaul
