// Checkpoints of runs whose groups come and go over shaped links.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "tests/experiments/command/elastic_links.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// The file of a rank below a results folder; "": there is none.
std::string CheckpointOf(const std::string& results, int group, int stage, int64_t step) {
  const std::string name = "group" + std::to_string(group) + "-stage" + std::to_string(stage) +
                           "-step" + std::to_string(step) + ".ckpt";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(results)) {
    if (entry.path().filename() == name) return entry.path();
  }
  return "";
}

class ElasticCheckpoints : public ElasticLinks {
 protected:
  // Over links, with checkpoints every 4 steps.
  std::vector<std::string> Saving(const std::string& spec, const std::string& results,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> sets = {"net.transport=ucx", "net.profile=" + Mesh(""),
                                     "net.out_of_bounds=flag", "checkpoint.every_steps=4",
                                     "checkpoint.keep=9"};
    sets.insert(sets.end(), more.begin(), more.end());
    return Arguments(spec, results, sets);
  }
  // Starts the command and kills it; what every worker has then is the checkpoint of `step`, and
  // none of a later one. That of `step` is being written while training goes on, and is there
  // when the next one is begun.
  void RunAndKillAfterCheckpoint(int step, const std::vector<std::string>& arguments) {
    const std::string output = scratch_.path() + "/output";
    const std::string told = "SELECT 1 FROM steps WHERE step = " + std::to_string(step + 5);
    const pid_t pid = StartLonghaul(arguments, output);
    for (int i = 0; i < 900 && Rows(links(), told).empty(); ++i) usleep(100'000);
    const std::vector<pid_t> workers = WorkersOf(pid);
    kill(pid, SIGKILL);
    WaitFor(pid, output);
    // Until the kernel has ended them, too, they train and save.
    ASSERT_TRUE(Eventually([&] { return !AnyIsThere(workers); }));
    ASSERT_FALSE(Rows(links(), told).empty()) << ReadFile(output);
    RemoveCheckpointsAfter(step, links());
  }
  static CommandResult Resume(std::vector<std::string> arguments) {
    arguments.emplace_back("--resume");
    return RunLonghaul(arguments);
  }
  Table ResumedFrom() const {
    return Rows(links(), "SELECT value FROM run_facts WHERE key = 'resumed_from_step'");
  }
};

TEST_F(ElasticCheckpoints, AKillAndAFullDiskInACheckpointCostNoOther) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "during = \"checkpoint\"", 3},
                                      {"disk_full", "group 2 stage 1", "", 12}};
  const CommandResult reference = InProcess(script, {"checkpoint.every_steps=4"});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, {"checkpoint.every_steps=4", "checkpoint.keep=9"});
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).at(1), "0 2|1|1");
  const Table said =
      Rows(links(), "SELECT said FROM faults WHERE what = 'disk_full' AND said != ''");
  ASSERT_EQ(said.size(), 1u) << run.output;
  EXPECT_THAT(said[0][0], HasSubstr("No space left on device"));
}

// The joiner's checkpoint of that step is as good as the others', and the script goes on behind it.
TEST_F(ElasticCheckpoints, ARunGoesOnFromTheStepAfterWhichAGroupJoined) {
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "", 6},
                                      {"stop", "group 0", "for_s = 2", 18}};
  const CommandResult reference = InProcess(script);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const std::vector<std::string> arguments = Saving(Spec(script, "links.toml"), links());
  RunAndKillAfterCheckpoint(8, arguments);
  const CommandResult resumed = Resume(arguments);
  EXPECT_EQ(ResumedFrom(), (Table{{"8"}})) << resumed.output;
  ExpectTheBitsOfOneProcess(resumed.output);
  EXPECT_THAT(Verdict(), testing::Not(testing::StartsWith("failed")));
}

TEST_F(ElasticCheckpoints, APlanOfGroupsIsResumedWithThoseThatAreThereThen) {
  const std::vector<std::string> plan = {"outer.schedule=[[0, 1], [8, 3], [16, 2]]"};
  const CommandResult reference = InProcess({}, plan);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const std::vector<std::string> arguments = Saving(Spec({}, "links.toml"), links(), plan);
  RunAndKillAfterCheckpoint(12, arguments);
  const CommandResult resumed = Resume(arguments);
  EXPECT_EQ(ResumedFrom(), (Table{{"12"}})) << resumed.output;
  EXPECT_EQ(Rounds(links()), Rounds(alone())) << resumed.output;
  EXPECT_EQ(Rows(links(), kHashes), Rows(alone(), kHashes)) << resumed.output;
  EXPECT_EQ(Rounds(links()).at(2), "0 1 2||");
  EXPECT_EQ(Rounds(links()).at(4).substr(0, 3), "0 1");
  // Nobody trains before the plan lets it, and nothing but the plan is told, once.
  constexpr char kTold[] =
      "SELECT step, what, place, said, lost_tokens, recovered_step FROM faults ORDER BY 1, 3";
  EXPECT_EQ(Rows(links(), kTold), Rows(alone(), kTold)) << resumed.output;
  EXPECT_EQ(Rows(links(), kTold).size(), 3u);
  EXPECT_EQ(Rows(links(), "SELECT MIN(step) FROM steps WHERE group_index = 1"), (Table{{"9"}}));
}

TEST_F(ElasticCheckpoints, OneOfTheWrongRunIsPassedOver) {
  const CommandResult reference = InProcess({});
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const std::string spec = Spec({}, "links.toml"), other = scratch_.path() + "/other";
  const CommandResult another = RunLonghaul(Saving(spec, other, {"train.steps=13"}));
  const std::vector<std::string> arguments = Saving(spec, links());
  RunAndKillAfterCheckpoint(12, arguments);
  const std::string file = CheckpointOf(links(), 1, 0, 12);
  ASSERT_NE(file, "");
  ASSERT_NE(CheckpointOf(other, 1, 0, 12), "") << another.output;
  std::filesystem::copy_file(CheckpointOf(other, 1, 0, 12), file,
                             std::filesystem::copy_options::overwrite_existing);
  const CommandResult resumed = Resume(arguments);
  EXPECT_EQ(ResumedFrom(), (Table{{"8"}})) << resumed.output;
  ExpectTheBitsOfOneProcess(resumed.output);
  const Table said =
      Rows(links(), "SELECT key, value FROM run_facts WHERE key LIKE 'checkpoint_passed_over%'");
  ASSERT_EQ(said.size(), 1u) << resumed.output;
  EXPECT_EQ(said[0][0], "checkpoint_passed_over_by_rank_2");
  EXPECT_THAT(said[0][1], HasSubstr("is of another run: 'steps=13' against 'steps=24'"));
}

TEST_F(ElasticCheckpoints, ARunFromAnothersCheckpointLosesAGroupWithTheBitsOfOneProcess) {
  const std::string left = scratch_.path() + "/left";
  const CommandResult earlier =
      Run(Spec({}, "left.toml"), left,
          {"net.transport=loopback", "train.steps=14", "checkpoint.every_steps=4"});
  ASSERT_EQ(earlier.exit_status, 0) << earlier.output;
  const std::vector<Strike> script = {{"kill", "group 1 stage 0", "", 14},
                                      {"kill", "group 0", "during = \"outer\"", 19}};
  const std::vector<std::string> from = {"checkpoint.from=\"" + left + "\""};
  const CommandResult reference = InProcess(script, from);
  ASSERT_EQ(reference.exit_status, 0) << reference.output;
  const CommandResult run = OverLinks(script, from);
  EXPECT_EQ(Rows(links(), "SELECT value FROM run_facts WHERE key = 'restored_step'"),
            (Table{{"12"}}))
      << run.output;
  ExpectTheBitsOfOneProcess(run.output);
  EXPECT_EQ(Rounds(links()).size(), 3u) << "of the steps from 13 on";
  EXPECT_THAT(Run(Spec({{"leave", "group 1", "", 14}}, "plan.toml"), links(),
                  {"net.transport=ucx", "net.profile=regional", from[0]})
                  .output,
              HasSubstr("begins with all groups"));
}

}  // namespace
}  // namespace longhaul
