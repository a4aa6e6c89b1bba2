// Files that are replaced while a campaign or a run is under way: another content is another run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compressors/numbers/sha256.h"
#include "experiments/record/file_contents.h"
#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kCampaign[] = R"([campaign]
name = "tiny"
question = "?"
seeds = [1, 2]
d0_tokens = 20_000
budgets = [0.5, 1.0]
[model]
kind = "gpt"
blocks = 4
width = 32
heads = 2
context = 32
vocab = 256
[train]
batch_rows = 8
microbatches = 2
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 8
[[arm]]
name = "s2"
stages = 2
forward = "int4-b64-h64"
)";

// Lines that are never the same twice, some thousands of tokens of them.
std::string Text(int lines, int from) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += "line " + std::to_string(from + i) + " and " + std::to_string((from + i) * 7919) + "\n";
  }
  return text;
}

class NamedFiles : public testing::Test {
 protected:
  std::vector<std::string> Measure(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"measure", spec_, "--accept-unresolved", "--set",
                                          "data.source=text:" + data_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string folder(const std::string& name) const { return scratch_.path() + "/" + name; }
  // As an editor does it: processes that have the file open keep what they have.
  void Replace(const std::string& path, const std::string& text) const {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  static std::string Digits(const std::string& text) {
    return std::string(ShortHash(Sha256Hex(text)));
  }
  size_t Ended(const std::string& results) const {
    const auto record = Record::Open(results, Record::Mode::kRead);
    if (!record.ok()) return 0;
    const auto finished = record->Finished(1);
    return finished.ok() ? finished->size() : 0;
  }

  ScratchFolder scratch_;
  const std::string one_ = Text(4000, 0), other_ = Text(4000, 5000);
  const std::string tiny_ = scratch_.File("run.toml", TinySpec());
  const std::string data_ = scratch_.File("data.txt", one_);
  const std::string spec_ =
      scratch_.File("tiny.toml", kCampaign + std::string("[data]\nsource = \"headers\"\n"));
};

TEST_F(NamedFiles, DataReplacedInTheMiddleOfACampaignEndIt) {
  const std::string output = folder("output"), results = folder("results");
  const pid_t pid = StartLonghaul(Measure({"--results", results, "--jobs", "1"}), output);
  for (int i = 0; i < 3000 && Ended(results) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GE(Ended(results), 1u) << ReadFile(output);
  Replace(data_, other_);
  const CommandResult stopped = WaitFor(pid, output);
  EXPECT_EQ(stopped.exit_status, 1) << stopped.output;
  EXPECT_THAT(stopped.output,
              AllOf(HasSubstr("data.source (text:" + data_ + ")"), HasSubstr(Digits(one_)),
                    HasSubstr(Digits(other_)), Not(HasSubstr("8-stage"))));
  const size_t ended = Ended(results);
  EXPECT_LT(ended, 6u);
  // Nor may it go on with the new content.
  const CommandResult again = RunLonghaul(Measure({"--results", results}));
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_THAT(again.output,
              AllOf(HasSubstr("runs of this plan ('tiny') with another content of "),
                    HasSubstr(Digits(one_) + " there"), HasSubstr(Digits(other_) + " here")));
  EXPECT_EQ(Ended(results), ended);
  // With the old one it does.
  Replace(data_, one_);
  const CommandResult rest = RunLonghaul(Measure({"--results", results}));
  EXPECT_EQ(rest.exit_status, 0) << rest.output;
  EXPECT_EQ(Ended(results), 6u);
}

TEST_F(NamedFiles, WeightsReplacedBetweenTwoRunsAreNotMerged) {
  const auto weights = [&](int seed) {
    const std::string saved = folder("saved" + std::to_string(seed));
    const CommandResult run =
        RunLonghaul({"run", tiny_, "--quiet", "--results", folder("w" + std::to_string(seed)),
                     "--set", "schedule.stages=1", "--set", "model.save=" + saved, "--set",
                     "seed=" + std::to_string(seed)});
    EXPECT_EQ(run.exit_status, 0) << run.output;
    return ReadFile(saved + "/model.safetensors");
  };
  const std::string first = weights(1), second = weights(2);
  const std::string init = scratch_.File("init.safetensors", first);
  const auto one = [&](int id) {
    return RunLonghaul(Measure({"--set", "model.init=" + init, "--run", std::to_string(id),
                                "--records", folder("records")}));
  };
  ASSERT_EQ(one(0).exit_status, 0) << one(0).output;
  Replace(init, second);
  ASSERT_EQ(one(1).exit_status, 0) << one(1).output;
  // A run that has ended is not one of the new weights.
  EXPECT_THAT(one(0).output,
              HasSubstr("runs of this plan ('tiny') with another content of model.i"));
  const CommandResult merged = RunLonghaul({"merge", folder("merged"), folder("records")});
  EXPECT_EQ(merged.exit_status, 1);
  EXPECT_THAT(merged.output, AllOf(HasSubstr("merge from " + folder("records") + "/0001"),
                                   HasSubstr("model.init (" + init + "): SHA-256 " + Digits(first) +
                                             " there, " + Digits(second) + " here")));
}

TEST_F(NamedFiles, ARunIsResumedWithItsOwnDataAndComparedWithRunsOfThem) {
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run",
                                          tiny_,
                                          "--quiet",
                                          "--results",
                                          folder("results"),
                                          "--set",
                                          "data.source=text:" + data_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunLonghaul(arguments);
  };
  ASSERT_EQ(run({"--arm", "x", "--set", "checkpoint.every_steps=2"}).exit_status, 0);
  Record record = *Record::Open(folder("results"), Record::Mode::kRead);
  EXPECT_EQ(record.Run(1)->facts.at(kNamedFilesFact), "data.source " + Sha256Hex(one_) + " " +
                                                          std::to_string(one_.size()) +
                                                          " 1 text:" + data_ + "\n");
  Replace(data_, other_);
  const CommandResult resumed =
      run({"--arm", "x", "--set", "checkpoint.every_steps=2", "--resume"});
  EXPECT_EQ(resumed.exit_status, 1);
  EXPECT_THAT(resumed.output,
              AllOf(HasSubstr("run 1 (ok) began with another content of data.source"),
                    HasSubstr(Digits(one_) + " there, " + Digits(other_) + " here")));
  ASSERT_EQ(run({"--arm", "y"}).exit_status, 0);
  const CommandResult compared = RunLonghaul({"compare", folder("results"), "x", "y"});
  EXPECT_EQ(compared.exit_status, 1);
  EXPECT_THAT(compared.output, AllOf(HasSubstr("trained on other files"), HasSubstr(Digits(one_)),
                                     HasSubstr(Digits(other_))));
}

TEST_F(NamedFiles, AnArmsOwnDataAreCountedInEpochs) {
  const std::string small = scratch_.File("small.txt", Text(930, 0));
  const std::string own = scratch_.File(
      "own.toml",
      ReadFile(spec_) + "[[arm]]\nname = \"small\"\ndata.source = \"text:" + small + "\"\n");
  const CommandResult measured =
      RunLonghaul({"measure", own, "--accept-unresolved", "--results", folder("own")});
  EXPECT_EQ(measured.exit_status, 1);
  EXPECT_THAT(measured.output, HasSubstr("arm 'small' trains 19968 tokens but the corpus has"));
}

}  // namespace
}  // namespace longhaul
