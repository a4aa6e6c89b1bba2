// `longhaul plan` as a user types it, from whatever folder.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/spec/gpu_profiles.h"
#include "tests/doc_table.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kExamples[] = LONGHAUL_SPECS "/../../examples/plan";

// Typed into a shell that stands in `folder`.
CommandResult PlanIn(const std::string& folder, const std::string& arguments) {
  return RunProgram(
      {"/bin/sh", "-c", "cd '" + folder + "' && exec '" LONGHAUL_BINARY "' plan " + arguments});
}

const std::string kFew = " --set plan.schedules='[\"gpipe\"]' --set plan.inner_steps='[30]' ";

TEST(PlanCommand, FilesOfTheSpecCountFromItsFolderAndThoseTypedFromOnesOwn) {
  const ScratchFolder scratch;
  const std::string spec = std::filesystem::weakly_canonical(std::string(kExamples) + "/plan.toml");
  const CommandResult far = PlanIn(scratch.path(), "'" + spec + "' --json" + kFew);
  ASSERT_EQ(far.exit_status, 0) << far.output;
  const CommandResult there = PlanIn(kExamples, "plan.toml --json --links two-sites.json" + kFew);
  ASSERT_EQ(there.exit_status, 0) << there.output;
  const json document = json::parse(far.output), beside = json::parse(there.output);
  EXPECT_EQ(document.at("rows"), beside.at("rows"));
  EXPECT_EQ(beside.at("links"), "two-sites.json");
  ASSERT_EQ(document["rows"].size(), 4u);
  // time = tokens of the reference / eta / tokens of a step x seconds of a step: 8 rows of 128 bytes in
  // each of two groups.
  const double tokens = document.at("reference_tokens").at("value");
  for (const json& row : document["rows"]) {
    double eta = 1;
    for (const json& factor : row.at("factors")) eta *= factor.at("value").get<double>();
    const double step_s = row.at("step_s"), time_s = row.at("time_s").at("value");
    EXPECT_NEAR(time_s / (tokens / eta / (2 * 8 * 128) * step_s), 1, 1e-9) << row;
  }
}

TEST(PlanCommand, WritesTheCampaignAndTheChoicesWhereItWasTyped) {
  const ScratchFolder scratch;
  const CommandResult plan = PlanIn(
      scratch.path(), std::string(kExamples) + "/plan.toml --write choices --csv rows.csv" + kFew);
  ASSERT_EQ(plan.exit_status, 0) << plan.output;
  for (const char* file : {"choices/choice-1.toml", "choices/choice-2-links.toml", "rows.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch.path() + "/" + file)) << file;
  }
  EXPECT_THAT(ReadFile(scratch.path() + "/choices/choice-1.toml"),
              HasSubstr("choices/choice-1-links.toml"));
}

TEST(PlanCommand, AMissingFileIsOneLineWithBothOfItsNames) {
  const ScratchFolder scratch;
  std::string text = ReadFile(std::string(kExamples) + "/plan.toml");
  scratch.File("plan.toml", text);  // its campaigns are not two folders up from here
  const CommandResult plan = PlanIn("/", "'" + scratch.path() + "/plan.toml'");
  EXPECT_EQ(plan.exit_status, 1) << plan.output;
  EXPECT_THAT(plan.output,
              AllOf(HasSubstr("'plan.curve' is '../../docs/results/activation-small/losses.csv'"),
                    HasSubstr("no file " + (std::filesystem::path(scratch.path()) /
                                            "../../docs/results/activation-small/losses.csv")
                                               .lexically_normal()
                                               .string()),
                    HasSubstr("count from the spec's folder")));
  EXPECT_EQ(std::count(plan.output.begin(), plan.output.end(), '\n'), 1) << plan.output;
  const std::string example = std::string(kExamples) + "/plan.toml";
  const CommandResult typed = PlanIn("/", example + " --links two-sites.json");
  EXPECT_EQ(typed.exit_status, 1);
  EXPECT_THAT(typed.output,
              HasSubstr("there is no file /two-sites.json: names on the command line"));
  const CommandResult set =
      PlanIn("/tmp", example + R"( --set 'plan.calibration=["x/../n.json"]')");
  EXPECT_EQ(
      set.output,
      "longhaul: --set plan.calibration=[\"x/../n.json\"]:1: 'plan.calibration' is 'x/../n.json', and "
      "there is no file /tmp/x/../n.json: names on the command line count from the working folder\n");
}

// docs/plan-money.md: the example's table, and the devices that the engine knows.
TEST(PlanCommand, ThePageOfPricesHasWhatItPrintsAndEveryDevice) {
  const std::string top = std::filesystem::weakly_canonical(LONGHAUL_SPECS "/../..").string();
  const std::string page = top + "/docs/plan-money.md";
  const CommandResult shown =
      PlanIn(top,
             "examples/plan/plan.toml --rank-by cost --rows 3 --set plan.price_per_hour=0.4 --set "
             "\"plan.link_price_per_gb={'*' = 0.09, 'a<>c' = 0, 'b<>d' = 0}\"");
  ASSERT_EQ(shown.exit_status, 0) << shown.output;
  ExpectTableInPage(page, "money", "```\n" + shown.output + "```\n");
  const std::string text = ReadFile(page);
  for (const GpuProfile& gpu : GpuProfiles()) {
    EXPECT_THAT(text, HasSubstr(fmt::format("| `{}` | {} | {:g} | {:g} | {:g} | {} |\n", gpu.name,
                                            gpu.device, 1e-12 * gpu.flops_per_s, gpu.memory_gb,
                                            gpu.memory_gb_per_s, gpu.source)));
  }
}

// docs/plan.md: the example's table, and of the choices that were run for real what stands as predicted.
TEST(PlanCommand, ThePageHasWhatItPrints) {
  const std::string top = std::filesystem::weakly_canonical(LONGHAUL_SPECS "/../..").string();
  const std::string page = top + "/docs/plan.md";
  const CommandResult shown = PlanIn(top, "examples/plan/plan.toml --rows 5");
  ASSERT_EQ(shown.exit_status, 0) << shown.output;
  ExpectTableInPage(page, "example", "```\n" + shown.output + "```\n");
  const std::string text = ReadFile(page);
  const std::string one_group =
      " --set outer.groups=1 --set train.batch_rows=16 --set outer.inner_steps=0"
      " --set plan.inner_steps=[0] --set 'plan.algorithms=[\"diloco\"]'";
  for (const auto& [links, sets] :
       {std::pair<std::string, std::string>("two-sites", kFew),
        {"slow-node", one_group + " --set schedule.stages=4"},
        {"home-ring", one_group + " --set schedule.stages=5 --set model.blocks=10"}}) {
    const CommandResult plan = PlanIn(
        top, "examples/plan/plan.toml --json --links examples/plan/" + links + ".json" + sets);
    ASSERT_EQ(plan.exit_status, 0) << plan.output;
    const json rows = json::parse(plan.output).at("rows");
    for (size_t i = 0; i < 2; ++i) {
      std::string row = "| " + links + " | " + rows[i].at("schedule").get<std::string>() + ", " +
                        rows[i].at("codecs").get<std::string>();
      if (links == "two-sites") row += ", diloco, H = 30";
      std::string nodes;
      for (const json& group : rows[i].at("placement").at("groups")) {
        nodes += nodes.empty() ? "" : " / ";
        for (const json& node : group) {
          nodes += (nodes.empty() || nodes.ends_with(' ') ? "" : " ") + node.get<std::string>();
        }
      }
      char step_s[32];
      std::snprintf(step_s, sizeof step_s, "%.4f", rows[i].at("step_s").get<double>());
      EXPECT_THAT(text, HasSubstr(row + " | " + nodes + " | " + step_s + " | "));
    }
  }
}

}  // namespace
}  // namespace longhaul
