// `longhaul scale` as a user types it: what it prints, writes and refuses.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class ScaleCommand : public testing::Test {
 protected:
  // A tenth of the example's steps.
  CommandResult Scale(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"scale", LONGHAUL_SPECS "/scale.toml", "--set",
                                          "train.steps=20000"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunLonghaul(arguments);
  }
  std::string Path(const std::string& name) const { return scratch_.path() + "/" + name; }

  ScratchFolder scratch_;
};

TEST_F(ScaleCommand, ASeedGivesTheSameDocumentAndMoreFailuresLessGoodput) {
  const std::vector<std::string> asked = {"--seeds", "3", "--sweep", "scale.mtbf_h=6,96", "--json"};
  const CommandResult first = Scale(asked);
  ASSERT_EQ(first.exit_status, 0) << first.output;
  EXPECT_EQ(first.output, Scale(asked).output);
  const json document = json::parse(first.output);
  ASSERT_EQ(document.at("points").size(), 2u);
  const auto goodput = [&](size_t at) {
    double sum = 0;
    for (const json& seed : document["points"][at].at("seeds")) {
      sum += seed.at("goodput_tokens_per_s").get<double>();
    }
    EXPECT_EQ(document["points"][at]["seeds"].size(), 3u);
    return sum;
  };
  EXPECT_LT(goodput(0), goodput(1)) << "groups that are killed every 6 hours, every 96";
}

TEST_F(ScaleCommand, WritesEveryPointAndSeedAndAPlot) {
  const CommandResult run =
      Scale({"--seeds", "2", "--sweep", "scale.mtbf_h=6,96", "--sweep", "outer.inner_steps=100,200",
             "--csv", Path("out.csv"), "--svg", Path("out.svg")});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("simulated time: S = 8, G = 64"));
  const std::string csv = ReadFile(Path("out.csv"));
  EXPECT_THAT(csv, StartsWith("scale.mtbf_h,outer.inner_steps,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 2 * 2);
  EXPECT_THAT(ReadFile(Path("out.svg")), StartsWith("<svg"));
}

}  // namespace
}  // namespace longhaul
