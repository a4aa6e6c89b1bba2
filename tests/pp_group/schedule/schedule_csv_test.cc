#include "pp_group/schedule/csv.h"

#include "gtest/gtest.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

// Interleaved 1F1B of 2 ranks, 2 stages each, 4 micro-batches, as torch 2.13 dumps it.
constexpr char kInterleaved[] =
    "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\r\n"
    ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\r\n";

TEST(ScheduleCsv, ReadsInterleavedStages) {
  // With the mark that some editors put first.
  const auto program =
      ParseScheduleCsv(std::string("\xef\xbb\xbf") + kInterleaved, CsvFormat::kComputeOnly);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->rank_of_stage, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(program->microbatches, 4);
  EXPECT_TRUE(CheckProgram(*program).ok()) << CheckProgram(*program);
  EXPECT_EQ(ToString(program->ranks[1]).substr(0, 19), "1F0 1F1 3F0 3B0 3F1");
}

TEST(ScheduleCsv, ComputeCommsIsThisText) {
  const PipelineProgram program = ProgramOf(*FindSchedule("zb-h1"), 2, 1);
  EXPECT_EQ(*ScheduleCsv(program, CsvFormat::kComputeOnly), "0F0,0I0,0W0\n1F0,1I0,1W0\n");
  EXPECT_EQ(*ScheduleCsv(program, CsvFormat::kComputeComms),
            "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST(ScheduleCsv, ReadsBackWhatItPrints) {
  for (const std::string& name : ScheduleNames()) {
    const PipelineProgram program = ProgramOf(*FindSchedule(name), 4, 6);
    for (const CsvFormat format : {CsvFormat::kComputeOnly, CsvFormat::kComputeComms}) {
      const auto again = ParseScheduleCsv(*ScheduleCsv(program, format), format);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->ranks, program.ranks) << name;
    }
  }
}

}  // namespace
}  // namespace longhaul
