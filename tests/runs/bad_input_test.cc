// Every kind of bad input ends in one clear line on stderr and a status that is not 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/runs/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct BadSpec {
  const char* name;
  const char* from;  // replaced in TinySpec()
  const char* to;
  std::vector<const char*> want;  // all in the message
};

class BadInput : public testing::TestWithParam<BadSpec> {};

TEST_P(BadInput, IsOneLineThatSaysWhereAndWhat) {
  const BadSpec& bad = GetParam();
  std::string spec = TinySpec();
  const size_t at = spec.find(bad.from);
  ASSERT_NE(at, std::string::npos) << bad.from;
  spec.replace(at, std::string(bad.from).size(), bad.to);
  ScratchFolder scratch;
  const std::string file = scratch.File("bad.toml", spec);
  const CommandResult result = RunLonghaul({"run", file, "--results", scratch.path() + "/results"});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  for (const char* want : bad.want) EXPECT_THAT(result.output, HasSubstr(want));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadInput,
    testing::Values(
        BadSpec{"Typo", "forward =", "forwrad =", {"bad.toml:", "forwrad", "forward"}},
        BadSpec{"UnknownCodec", "int4-b64-h64", "int5-b64", {"int5-b64", "int8-b64"}},
        BadSpec{"UnknownSchedule", "\"1f1b\"", "\"2f2b\"", {"2f2b", "1f1b", "gpipe"}},
        BadSpec{"WrongType", "blocks = 4", "blocks = \"four\"", {"bad.toml:", "blocks", "integer"}},
        BadSpec{"MissingKey", "heads = 2\n", "", {"heads"}},
        BadSpec{"StagesDoNotDivide", "stages = 2", "stages = 3", {"stages", "blocks", "4", "3"}},
        BadSpec{
            "MicrobatchesDoNotDivide", "microbatches = 2", "microbatches = 3", {"microbatches"}},
        BadSpec{"NotToml", "[model]", "[model", {"bad.toml:"}}),
    [](const auto& spec) { return std::string(spec.param.name); });

TEST(BadInput, UnknownProfileListsTheKnownOnes) {
  ScratchFolder scratch;
  const std::string file = scratch.File("bad.toml", TinySpec());
  const CommandResult result =
      RunLonghaul({"run", file, "--results", scratch.path() + "/results", "--set",
                   "net.transport=ucx", "--set", "net.profile=moon"});
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("moon"), HasSubstr("continental-us")));
}

TEST(BadInput, MissingFileIsNamed) {
  const CommandResult result = RunLonghaul({"run", "/no/such/spec.toml"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, HasSubstr("/no/such/spec.toml"));
}

TEST(BadInput, WorkerOutsideALauncherNamesTheVariable) {
  ScratchFolder scratch;
  const CommandResult result = RunLonghaul({"worker", scratch.File("spec.toml", TinySpec())});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("RANK"), HasSubstr("torchrun")));
}

TEST(BadInput, UnknownCommandIsUsage) { EXPECT_EQ(RunLonghaul({"fly"}).exit_status, 2); }

}  // namespace
}  // namespace longhaul
