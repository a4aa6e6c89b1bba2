#include "experiments/report/report_law.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/record/synthetic_record.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A cell of one arm with two cuts: -ln eta and Delta of three seeds, spread by a twentieth.
PriceCell Cell(size_t index, double parameters, double minus_ln_eta, double delta) {
  PriceCell cell{"w" + std::to_string(index), "results", parameters, 20 * parameters, 3, 0.3};
  PriceArm arm{"f4", "int4-b64 / none"};
  PricePoint point{index, parameters, 20 * parameters, 0, {0.25, 0.75}};
  for (const auto& [x, into, shown] : {std::tuple(minus_ln_eta, &arm.tokens, &arm.minus_ln_eta),
                                       std::tuple(delta, &arm.loss, &arm.delta_nat)}) {
    *into = point;
    (*into)->value = shown->value = x;
    for (const double e : {-0.05, 0.0, 0.05}) (*into)->without.push_back(x * (1 - e / 2));
  }
  cell.arms.push_back(arm);
  return cell;
}

// -ln eta stays, Delta halves where N grows fourfold: an exponent of -1/2.
TEST(LawReport, SaysWhichTransferIsRefutedAndWithWhatExponent) {
  const auto report = MakeLawReport({Cell(0, 1e5, 0.4, 0.12), Cell(1, 4e5, 0.4, 0.06)},
                                    {*ReadLawAim("1.6e6:3.2e7")});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string text = LawText(*report);
  EXPECT_THAT(text, HasSubstr("token transfer: not refuted"));
  EXPECT_THAT(text, HasSubstr("loss transfer: refuted"));
  EXPECT_THAT(text, HasSubstr("-0.50 [-0."));
  // Again a fourth the size: as much of the tokens, half the nat.
  const CsvRows aims = LawAimsCsv(*report);
  ASSERT_THAT(aims, SizeIs(3));
  EXPECT_NEAR(std::stod(aims[1][4]), 0.4, 1e-6);
  EXPECT_NEAR(std::stod(aims[2][4]), 0.03, 1e-6);
  EXPECT_THAT(LawCsv(*report)[2][0], "w1");
  EXPECT_THAT(LawTermsCsv(*report)[2], ElementsAre("f4", "-ln eta", "2", "exponent in N",
                                                   testing::_, testing::_, testing::_, ""));
}

// -ln eta 0.4, 0.4 and 0.8 is no power of N; Delta is one of -1/2. The first says so wherever it stands.
TEST(LawReport, ALawThatItsPointsRefuseSaysSoAndForetellsNothing) {
  std::vector<PriceCell> cells = {Cell(0, 1e5, 0.4, 0.12), Cell(1, 4e5, 0.4, 0.06),
                                  Cell(2, 1.6e6, 0.8, 0.03)};
  for (PriceCell& cell : cells) {  // twelve seeds with a spread that three cannot have
    for (auto* point : {&cell.arms[0].tokens, &cell.arms[0].loss}) {
      (*point)->without.clear();
      for (int i = 0; i < 12; ++i)
        (*point)->without.push_back((*point)->value * (i % 2 ? 1.001 : 0.999));
    }
  }
  const auto report = MakeLawReport(cells, {*ReadLawAim("6.4e6:1.28e8")});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string text = LawText(*report);
  EXPECT_THAT(text, HasSubstr("token transfer: refuted, as is every power of N"));
  EXPECT_THAT(text, HasSubstr("\nf4, -ln eta: the points do not lie on this law (z^2 "));
  EXPECT_THAT(text, testing::Not(HasSubstr("\nf4, Delta: the points")));
  EXPECT_THAT(text, HasSubstr("loss transfer: refuted  "));
  const CsvRows aims = LawAimsCsv(*report);
  ASSERT_THAT(aims, SizeIs(2));
  EXPECT_EQ(aims[1][3], "Delta");
  for (const auto& row : LawTermsCsv(*report)) {
    if (row[3] != "exponent in N") continue;
    EXPECT_EQ(row[7].starts_with("refused by its points"), row[1] == "-ln eta") << row[0];
  }
}

TEST(LawReport, OneCellHasNoExponentAndForetellsItself) {
  const auto report = MakeLawReport({Cell(0, 1e5, 0.4, 0.12)}, {*ReadLawAim("4e5:8e6")});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(LawText(*report), HasSubstr("one size: no exponent in N"));
  EXPECT_NEAR(std::stod(LawAimsCsv(*report)[1][4]), 0.4, 1e-6);
  EXPECT_NEAR(std::stod(LawAimsCsv(*report)[2][4]), 0.12, 1e-6);
}

TEST(LawReport, AnAimIsTwoNumbersAboveZero) {
  EXPECT_EQ(ReadLawAim("435264:8706048")->tokens, 8706048);
  for (const char* wrong : {"435264", "a:b", "1:0", "-1:2", "inf:1", ""}) {
    EXPECT_THAT(std::string(ReadLawAim(wrong).status().message()), HasSubstr("PARAMETERS:TOKENS"))
        << wrong;
  }
}

// The synthetic campaign loses ln q = ln 0.99 a crossing at a slope of 0.37 nat, all seeds alike but
// for 4 mnat of noise; its both-way arms do not join, f4 and f8 with 3 and 7 crossings do.
TEST(PriceCell, IsReadFromTheNewestCampaignOfARecord) {
  const std::string folder = testing::TempDir() + "price_cell_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  {
    Record record = *Record::Open(folder, Record::Mode::kWrite);
    EXPECT_THAT(std::string(ReadPriceCell(record, 0).status().message()), HasSubstr("no campaign"));
    WriteSyntheticCampaign(record, {.noise_nat = 1e-5, .seeds = 4, .more_arms = kDirectionArms});
    const auto cell = ReadPriceCell(record, 2);
    ASSERT_TRUE(cell.ok()) << cell.status();
    EXPECT_EQ(cell->seeds, 4);
    EXPECT_THAT(cell->left_out,
                testing::Contains(AllOf(HasSubstr("s4"), HasSubstr("both directions"))));
    ASSERT_THAT(cell->arms, SizeIs(4));
    const PriceArm& f8 = cell->arms[2];
    EXPECT_EQ(f8.arm, "f8");
    EXPECT_TRUE(f8.forward);
    ASSERT_TRUE(f8.tokens && f8.loss);
    EXPECT_EQ(f8.tokens->cell, 2u);
    EXPECT_THAT(f8.tokens->places, ElementsAre(0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875));
    EXPECT_NEAR(f8.tokens->value, 7 * -std::log(0.99), 0.003);
    EXPECT_THAT(f8.tokens->without, SizeIs(4));
    EXPECT_FALSE(cell->arms[1].forward);
    // With what is left of each seed comes back the whole.
    double mean = 0;
    for (const double x : f8.tokens->without) mean += x / 4;
    EXPECT_NEAR(mean, f8.tokens->value, 1e-9);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace longhaul
