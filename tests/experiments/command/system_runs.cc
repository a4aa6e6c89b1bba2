#include "tests/experiments/command/system_runs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "experiments/record/record.h"
#include "experiments/spec/known_names.h"
#include "experiments/train/traffic.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> ArgumentsOf(const std::string& path, const std::vector<std::string>& sets,
                                     const std::string& results) {
  std::vector<std::string> arguments = {"run",   path,    "--results",
                                        results, "--set", "train.hash_every=1"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return arguments;
}

// Whether a rank has written the second: then all have the first, from which a run goes on.
bool HasTwoCheckpoints(const std::string& results) {
  std::error_code ignored;  // files come and go
  for (auto at = std::filesystem::recursive_directory_iterator(results, ignored);
       !ignored && at != std::filesystem::recursive_directory_iterator(); at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".ckpt") && name.find("-step20") != std::string::npos) return true;
  }
  return false;
}

std::vector<std::string> Texts(const std::vector<CodecSwitchRow>& switches) {
  std::vector<std::string> texts;
  for (const CodecSwitchRow& s : switches) {
    texts.push_back(std::to_string(s.step) + ": " + s.from_codec + " > " + s.to_codec + ": " +
                    s.cause);
  }
  return texts;
}

std::vector<int64_t> MessageBytesOf(const SystemRun& run) {
  std::vector<int64_t> bytes;
  for (const CrossingRow& row : run.crossings) {
    if (row.tensors > 0) bytes.push_back(row.message_bytes);
  }
  return bytes;
}

void Without(std::string& text, const std::string& words) {
  if (const size_t at = text.find(words); at != std::string::npos) text.erase(at, words.size());
}

// The same run as processes behind links: its file and what is set. On a simulated clock there are
// none: its keys go.
struct OnLinks {
  std::string path;
  std::vector<std::string> sets;
};
OnLinks OverLinks(const std::string& path, std::vector<std::string> sets,
                  const ScratchFolder& scratch) {
  std::string text = ReadFile(path);
  Without(text, "clock = \"simulated\"\n");
  Without(text, "[compute]\nflops_per_s = 1e11\nmfu = 0.4\n");
  const RunSpec spec = *LoadRunSpec(path, sets, CatalogNames());
  const bool by_rates = spec.boundary.policy && spec.boundary.policy->by == "bandwidth";
  const std::string links = by_rates ? std::string(LONGHAUL_SPECS) + "/two-continents.toml"
                                     : LinksWithoutRates(scratch, static_cast<int>(spec.workers()));
  for (const auto& set : {"net.transport=ucx", "net.out_of_bounds=flag"}) sets.push_back(set);
  sets.push_back("net.profile=" + links);
  return {scratch.File("over-links.toml", text), std::move(sets)};
}

double HeldOut(const SystemRun& run) {
  double loss = 0;
  for (const EvaluationRow& row : run.evaluations) {
    if (row.codec == EvalCodec::kOff) loss = row.loss_nat;
  }
  return loss;
}

}  // namespace

bool LongSystems() { return std::getenv("LONGHAUL_LONG_SYSTEMS") != nullptr; }

SystemRun SystemRunIn(const std::string& results, CommandResult result) {
  SystemRun run;
  run.result = std::move(result);
  const auto record = Record::Open(results, Record::Mode::kRead);
  if (!record.ok()) return run;
  run.steps = *record->RowsOf<StepRow>(1);
  run.crossings = *record->RowsOf<CrossingRow>(1);
  run.switches = *record->RowsOf<CodecSwitchRow>(1);
  run.evaluations = *record->RowsOf<EvaluationRow>(1);
  return run;
}

SystemRun RunSystem(const std::string& path, const std::vector<std::string>& sets,
                    const std::string& results, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = ArgumentsOf(path, sets, results);
  arguments.insert(arguments.end(), more.begin(), more.end());
  return SystemRunIn(results, RunLonghaul(arguments));
}

std::vector<uint64_t> HashesOf(const SystemRun& run) {
  std::vector<uint64_t> hashes;
  for (const StepRow& row : run.steps) hashes.push_back(row.parameter_hash.value());
  return hashes;
}

void ExpectItLearns(const SystemRun& run, double nat) {
  double first = 0, last = 0;
  for (const StepRow& row : run.steps) {
    if (row.loss_nat && row.step == 1) first = *row.loss_nat;
    if (row.loss_nat) last = *row.loss_nat;
  }
  EXPECT_LT(last, first - nat);
  if (!LongSystems()) return;
  EXPECT_FALSE(run.evaluations.empty());
  EXPECT_THAT(run.result.output, Not(HasSubstr("learnt no more than byte frequencies")));
}

void ExpectPlannedBytes(const std::string& path, const std::vector<std::string>& sets,
                        const SystemRun& run, PlannedShare outer) {
  using Pair = std::tuple<int64_t, int64_t, Direction>;
  const RunSpec spec = *LoadRunSpec(path, sets, CatalogNames());
  std::map<Pair, double> planned;
  const std::vector<PlannedCrossing> crossings = *PlanCrossings(spec, 0, run.switches);
  for (const PlannedCrossing& c : crossings) {
    planned[{c.src_rank, c.dst_rank, c.direction}] +=
        static_cast<double>(c.messages()) * *MessageBytes(c);
  }
  std::map<Pair, double> counted;  // where codecs change a pair has several rows
  for (const CrossingRow& row : run.crossings) {
    if (row.tensors == 0) continue;
    counted[{row.src_rank, row.dst_rank, row.direction}] += static_cast<double>(row.message_bytes);
  }
  EXPECT_FALSE(planned.empty());
  EXPECT_EQ(counted.size(), planned.size());
  for (const auto& [pair, bytes] : counted) {
    const double plan = planned[pair];
    const auto& [src, dst, direction] = pair;
    const PlannedShare share = direction == Direction::kOuter ? outer : PlannedShare{};
    const std::string where =
        std::to_string(src) + " > " + std::to_string(dst) + ", " + std::string(ToString(direction));
    EXPECT_LE(bytes, share.is_bound ? plan : (1 + share.apart) * plan) << where;
    EXPECT_GE(bytes, share.is_bound ? plan / 2 : (1 - share.apart) * plan) << where;
  }
}

void ExpectTheSameAfterAKill(const std::string& path, const std::vector<std::string>& sets,
                             const SystemRun& whole) {
  ScratchFolder scratch;
  const std::string results = scratch.path() + "/results", output = scratch.path() + "/output";
  std::vector<std::string> saving = sets;
  saving.push_back("checkpoint.every_steps=10");
  const pid_t pid = StartLonghaul(ArgumentsOf(path, saving, results), output);
  EXPECT_TRUE(Eventually([&] { return HasTwoCheckpoints(results); })) << ReadFile(output);
  kill(pid, SIGKILL);
  ASSERT_EQ(WaitFor(pid, output).signal, SIGKILL) << "it had ended before it was killed";
  const SystemRun resumed = RunSystem(path, saving, results, {"--resume"});
  ASSERT_TRUE(TrainedToTheEnd(resumed.result)) << resumed.result.output;
  EXPECT_EQ(HashesOf(resumed), HashesOf(whole));
  EXPECT_EQ(Texts(resumed.switches), Texts(whole.switches));
  EXPECT_EQ(MessageBytesOf(resumed), MessageBytesOf(whole));
  EXPECT_EQ(HeldOut(resumed), HeldOut(whole));
}

void ExpectWhatLongSystemsHold(const std::string& path, const std::vector<std::string>& sets,
                               const SystemRun& whole) {
  // A simulated clock is in no checkpoint: such a run is killed behind links.
  const bool checkpoints = !LoadRunSpec(path, sets, CatalogNames())->simulated_clock();
  if (checkpoints) ExpectTheSameAfterAKill(path, sets, whole);
  const bool lab = WhyNoLab().empty();
  if (lab) {
    ScratchFolder scratch;
    const OnLinks on_links = OverLinks(path, sets, scratch);
    if (!checkpoints) ExpectTheSameAfterAKill(on_links.path, on_links.sets, whole);
    const SystemRun links = RunSystem(on_links.path, on_links.sets, scratch.path() + "/links");
    EXPECT_TRUE(TrainedToTheEnd(links.result)) << links.result.output;
    EXPECT_EQ(HashesOf(links), HashesOf(whole)) << "behind links";
    EXPECT_EQ(Texts(links.switches), Texts(whole.switches)) << "behind links";
    EXPECT_EQ(MessageBytesOf(links), MessageBytesOf(whole)) << "behind links";
    EXPECT_EQ(HeldOut(links), HeldOut(whole)) << "behind links";
  }
  std::printf("| %s | %.3f | %.1f | %s | %s |\n", std::filesystem::path(path).stem().c_str(),
              HeldOut(whole), whole.result.wall_s, lab ? "equal" : "no lab here",
              testing::Test::HasFailure() ? "FAILED" : "passed");
  std::fflush(stdout);
}

std::vector<std::string> SystemNames(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LONGHAUL_SPECS)) {
    const std::string name = entry.path().stem();
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace longhaul
