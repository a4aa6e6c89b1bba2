// Schedules against torch.distributed.pipelining of the installed wheel: what it dumps is read and
// proven here, and it takes what is printed here. No processes: both sides are text.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"
#include "pp_group/schedule/csv.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

fs::path Folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("schedule_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

int Torch(const std::string& verb, const fs::path& folder) {
  const std::string command = std::string(LONGHAUL_TEST_PYTHON) + " " + LONGHAUL_TEST_SCRIPT + " " +
                              verb + " " + folder.string();
  return std::system(command.c_str());
}

// Importing torch takes its time: once.
const fs::path& Dumped() {
  static const fs::path folder = [] {
    fs::path made = Folder("dump");
    EXPECT_EQ(Torch("dump", made), 0);
    return made;
  }();
  return folder;
}

PipelineProgram Read(const fs::path& path, CsvFormat format) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const auto program = ParseScheduleCsv(text.str(), format);
  EXPECT_TRUE(program.ok()) << path << ": " << program.status();
  return program.ok() ? *program : PipelineProgram{};
}

TEST(TorchSchedules, AreReadAndProvenWithTheirCommunication) {
  const fs::path folder = Dumped();
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const size_t end = name.find(".compute_only.csv");
    if (end == std::string::npos) continue;
    ++cases;
    const PipelineProgram program = Read(entry.path(), CsvFormat::kComputeOnly);
    EXPECT_TRUE(CheckProgram(program).ok()) << name << ": " << CheckProgram(program);
    // Reading checks that its sends and receives are those that follow from the actions.
    const PipelineProgram with_comms =
        Read(folder / (name.substr(0, end) + ".compute_comms.csv"), CsvFormat::kComputeComms);
    EXPECT_EQ(with_comms.ranks, program.ranks) << name;
  }
  EXPECT_EQ(cases, 8);
}

// Torch's zero-bubble schedule of one stage a rank is ZB-H1, action for action.
TEST(TorchSchedules, ZeroBubbleOfOneStageARankIsZbH1) {
  const fs::path folder = Dumped();
  const PipelineProgram theirs =
      Read(folder / "InterleavedZeroBubble_4_8_1.compute_only.csv", CsvFormat::kComputeOnly);
  EXPECT_EQ(theirs.ranks, ProgramOf(*FindSchedule("zb-h1"), 4, 8).ranks);
}

TEST(TorchSchedules, OfSeveralStagesARankAreOurs) {
  const fs::path folder = Dumped();
  const auto equal = [&](const std::string& theirs, const char* ours, PipelineShape shape) {
    const PipelineProgram read =
        Read(folder / (theirs + ".compute_only.csv"), CsvFormat::kComputeOnly);
    const PipelineProgram made = ProgramOf(*FindSchedule(ours), shape);
    EXPECT_EQ(read.ranks, made.ranks) << theirs;
    EXPECT_EQ(read.rank_of_stage, made.rank_of_stage) << theirs;
  };
  equal("Interleaved1F1B_2_4_2", "interleaved-1f1b", {.ranks = 2, .chunks = 2, .microbatches = 4});
  equal("Interleaved1F1B_4_8_3", "interleaved-1f1b", {.ranks = 4, .chunks = 3, .microbatches = 8});
  equal("Interleaved1F1B_4_6_2", "interleaved-1f1b", {.ranks = 4, .chunks = 2, .microbatches = 6});
  equal("ZBVZeroBubble_4_8_2", "zb-v", {.ranks = 4, .chunks = 2, .microbatches = 8});
  equal("ZBVZeroBubble_3_4_2", "zb-v", {.ranks = 3, .chunks = 2, .microbatches = 4});
}

TEST(TorchSchedules, TorchTakesEveryScheduleOfTheTable) {
  const fs::path folder = Folder("judge");
  for (const std::string& name : ScheduleNames()) {
    for (const auto& [stages, microbatches] : {std::pair(2, 4), {4, 8}, {8, 3}}) {
      const PipelineProgram program = ProgramOf(*FindSchedule(name), stages, microbatches);
      const std::string stem = name + "_" + std::to_string(stages);
      std::ofstream(folder / (stem + ".compute_only.csv"))
          << *ScheduleCsv(program, CsvFormat::kComputeOnly);
      std::ofstream(folder / (stem + ".compute_comms.csv"))
          << *ScheduleCsv(program, CsvFormat::kComputeComms);
    }
  }
  EXPECT_EQ(Torch("judge", folder), 0);
}

}  // namespace
}  // namespace longhaul
