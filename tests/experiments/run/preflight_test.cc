// What is found before a run starts: in one line, and nothing is left behind.
#include "experiments/run/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Remaining kPlenty{int64_t{1} << 60, "test"};

TEST(CheckResources, RefusesWhatDoesNotFitWithBothFigures) {
  const ResourcePlan plan{.processes = 3,
                          .bytes = 3'000'000'000,
                          .worker_bytes = 1'500'000'000,
                          .threads = 100,
                          .device = "cpu",
                          .device_bytes = {}};
  EXPECT_TRUE(CheckResources({plan, plan}, {6'000'000'000, "x"}, kPlenty).ok());
  const absl::Status status =
      CheckResources({plan, plan}, {5'999'999'999, "MemAvailable"}, kPlenty);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("6 processes would take 6.00 GB (the largest 1.50 GB)"),
                    HasSubstr("there are 6.00 GB (MemAvailable)")));
}

// Of 30, 20 and 10 bytes with 3, 4 and 1 cores each: what is together at work, by its bytes.
TEST(LargestTogether, AreAsManyAsTheLimitsLetTheLargestFirst) {
  const auto together = [](int jobs, int64_t cores) {
    std::vector<PlannedLoad> all;
    for (const auto& [bytes, needs] : {std::pair(10, 1), {30, 3}, {20, 4}}) {
      ResourcePlan plan{};
      plan.bytes = bytes;
      all.push_back({plan, needs});
    }
    std::vector<int64_t> bytes;
    for (const ResourcePlan& plan : LargestTogether(all, {.jobs = jobs, .cores = cores})) {
      bytes.push_back(plan.bytes);
    }
    return bytes;
  };
  EXPECT_THAT(together(3, 8), testing::ElementsAre(30, 20, 10)) << "the cores to the last one";
  EXPECT_THAT(together(3, 7), testing::ElementsAre(30, 20));
  EXPECT_THAT(together(3, 6), testing::ElementsAre(30, 10)) << "a smaller one may fit";
  EXPECT_THAT(together(3, 3), testing::ElementsAre(30));
  EXPECT_THAT(together(3, 1), testing::ElementsAre(30)) << "one goes ahead whatever it needs";
  EXPECT_THAT(together(2, 100), testing::ElementsAre(30, 20));
}

TEST(CheckResources, LeavesHalfOfTheThreadsToOthers) {
  const ResourcePlan plan{.processes = 2,
                          .bytes = 1,
                          .worker_bytes = 1,
                          .threads = 100,
                          .device = "cpu",
                          .device_bytes = {}};
  EXPECT_TRUE(CheckResources({plan}, kPlenty, {200, "pids.max"}).ok());
  EXPECT_THAT(std::string(CheckResources({plan}, kPlenty, {199, "pids.max"}).message()),
              HasSubstr("would start 100, and half of what is left are 99 (pids.max)"));
}

class Limits : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(
        std::filesystem::path(root_.path() + "/" + path).parent_path());
    root_.File(path, text);
  }
  ScratchFolder root_;
};

TEST_F(Limits, MemoryIsWhatTheStrictestGroupLeaves) {
  EXPECT_EQ(RemainingMemory(root_.path()).amount, std::numeric_limits<int64_t>::max());
  Write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:   4000 kB\n");
  EXPECT_EQ(RemainingMemory(root_.path()).amount, 4'096'000);
  EXPECT_EQ(RemainingMemory(root_.path()).by, "MemAvailable");
  Write("proc/self/cgroup", "0::/user/one\n");
  Write("sys/fs/cgroup/user/one/memory.max", "max\n");
  Write("sys/fs/cgroup/user/memory.max", "3000000\n");
  Write("sys/fs/cgroup/user/memory.current", "2000000\n");
  Write("sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 500000\n");
  EXPECT_EQ(RemainingMemory(root_.path()).amount, 1'500'000);
  EXPECT_THAT(RemainingMemory(root_.path()).by, HasSubstr("/sys/fs/cgroup/user/memory.max"));
  Write("proc/self/cgroup", "4:memory:/a\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700\n");
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(RemainingMemory(root_.path()).amount, 0);
}

TEST_F(Limits, ThreadsAreWhatKernelAndGroupsLeave) {
  Write("proc/sys/kernel/threads-max", "9000\n");
  Write("proc/sys/kernel/pid_max", "8000\n");
  EXPECT_EQ(RemainingThreads(root_.path()).amount, 8000);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/pids.max", "100\n");
  Write("sys/fs/cgroup/pids.current", "40\n");
  EXPECT_EQ(RemainingThreads(root_.path()).amount, 60);
}

struct Case {
  const char* name;
  std::vector<std::string> sets;
  std::vector<std::string> want;
};

class CheckedFirst : public testing::TestWithParam<Case> {};

// With shaped links asked for: a refusal that came after namespaces were built would take seconds
// of probes, and a record.
TEST_P(CheckedFirst, IsOneLineBeforeAnythingStarts) {
  ScratchFolder scratch;
  scratch.File("empty", "");
  scratch.File("short", std::string(6400, 'x'));
  const std::string results = scratch.path() + "/results";
  std::vector<std::string> arguments = {"run",       scratch.File("spec.toml", TinySpec()),
                                        "--results", results,
                                        "--set",     "net.transport=ucx"};
  for (std::string set : GetParam().sets) {
    if (const size_t at = set.find('@'); at != std::string::npos) {
      set.replace(at, 1, scratch.path() + "/");
    }
    arguments.insert(arguments.end(), {"--set", set});
  }
  const CommandResult result = RunLonghaul(arguments);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  for (const std::string& want : GetParam().want) EXPECT_THAT(result.output, HasSubstr(want));
  EXPECT_FALSE(std::filesystem::exists(results));
}

INSTANTIATE_TEST_SUITE_P(
    Runs, CheckedFirst,
    testing::Values(
        Case{"WarmUpBeyondTheRun",
             {"train.warmup_steps=7"},
             {"'train.warmup_steps' is 7; want 0 to 6 steps"}},
        Case{"EvaluationBeyondTheData",
             {"eval.rows=1000000"},
             {"'eval.rows' is 1000000; want 1 to ", "headers holds out"}},
        Case{"EmptyData", {"data.source=text:@empty"}, {"/empty", "0 tokens"}},
        Case{"DataShorterThanARow",
             {"data.source=text:@short", "model.context=128"},
             {"context 128", "6300 tokens to train on, 100 held out"}},
        Case{"OuterCodecWithAReceiversState",
             {"outer.inner_steps=2", "outer.codec=int8-b64+ef21"},
             {"int8-b64+ef21", "use +ef"}},
        Case{"MoreMemoryThanThereIs",
             {"model.width=65536", "model.heads=8"},
             {"not enough memory", "2 processes would take", " GB"}},
        Case{"ADeviceThatIsNone",
             {"train.device=cuda:01"},
             {"device 'cuda:01', want cpu, cuda, cuda:N or cuda:*"}},
        Case{"AGpuBeyondTheMachines", {"train.device=cuda:999"}, {"device 'cuda:999': "}}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(CheckedFirstCampaign, TheArmThatCannotRunIsNamedBeforeAnythingStarts) {
  ScratchFolder scratch;
  const std::string results = scratch.path() + "/results";
  for (const auto& [set, want] :
       {std::pair{"eval.rows=100000000", "arm 'reference@0.5': 'eval.rows' is 100000000"},
        {"model.width=65536", "arm 'reference@0.5': not enough memory"}}) {
    const CommandResult result =
        RunLonghaul({"measure", LONGHAUL_SPECS "/smoke.toml", "--results", results, "--set", set});
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr(want));
    EXPECT_FALSE(std::filesystem::exists(results));
  }
}

TEST(CheckedFirstSpec, EmptyFileIsReadAndItsFirstKeyIsMissed) {
  ScratchFolder scratch;
  EXPECT_THAT(RunLonghaul({"run", scratch.File("empty.toml", "")}).output,
              HasSubstr("empty.toml: 'seed' is missing"));
}

}  // namespace
}  // namespace longhaul
