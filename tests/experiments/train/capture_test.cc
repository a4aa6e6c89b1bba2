// Boundary tensors as files that other programs read.
#include "experiments/train/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "experiments/train/safetensors.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// By the format's own description: u64 length of the header, JSON, values.
struct Read {
  json header;
  std::string values;
};
Read ReadFileOf(const std::string& path) {
  const std::string bytes = ReadFile(path);
  uint64_t length = 0;
  EXPECT_GE(bytes.size(), 8u) << path;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u) << "values begin aligned";
  return {json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().filename());
  }
  return files;
}

TEST(Safetensors, HeaderSaysWhereEachTensorLies) {
  const ScratchFolder scratch;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7};
  const std::vector<SafeTensor> tensors = {{"a", {2, 3}, a}, {"b", {1}, b}};
  const std::string path = scratch.path() + "/x.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"seed", "1"}}).ok());
  const Read read = ReadFileOf(path);
  EXPECT_EQ(read.header["__metadata__"]["seed"], "1");
  EXPECT_EQ(read.header["a"],
            json({{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}}));
  EXPECT_EQ(read.header["b"]["data_offsets"], json({24, 28}));
  ASSERT_EQ(read.values.size(), 28u);
  EXPECT_EQ(std::memcmp(read.values.data(), a.data(), 24), 0);
  EXPECT_EQ(std::memcmp(read.values.data() + 24, b.data(), 4), 0);
  EXPECT_THAT(FilesOf(scratch.path()), ElementsAre("x.safetensors"));
}

TEST(Safetensors, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = WriteSafetensors("/none/x.safetensors", {}, {});
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none/x.safetensors"));
}

TEST(Capture, WantsTheFirstStepThoseAfterTenAndFiftyPercentAndTheLast) {
  Capture capture("", 200, {});
  std::vector<int64_t> wanted;
  for (int64_t step = 1; step <= 200; ++step) {
    capture.BeginStep(step);
    if (capture.wanted()) wanted.push_back(step);
  }
  EXPECT_THAT(wanted, ElementsAre(1, 20, 100, 200));
}

TEST(Capture, OfARunHoldsWhatItsBoundariesSent) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/tensors";
  const std::vector<std::string> command = {"run",       scratch.File("spec.toml", TinySpec()),
                                            "--results", scratch.path() + "/results",
                                            "--capture", folder};
  const CommandResult run = RunLonghaul(command);
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(FilesOf(folder),
              UnorderedElementsAre("step000001-group0-boundary0-activation.safetensors",
                                   "step000001-group0-boundary0-gradient.safetensors",
                                   "step000003-group0-boundary0-activation.safetensors",
                                   "step000003-group0-boundary0-gradient.safetensors",
                                   "step000006-group0-boundary0-activation.safetensors",
                                   "step000006-group0-boundary0-gradient.safetensors"));
  const Read read = ReadFileOf(folder + "/step000003-group0-boundary0-gradient.safetensors");
  EXPECT_EQ(read.header["__metadata__"]["kind"], "gradient");
  EXPECT_EQ(read.header["__metadata__"]["gradient_codec"], "int8-b64");
  EXPECT_EQ(read.header["__metadata__"]["step"], "3");
  // 2 rows of 32 tokens a micro-batch, 32 wide.
  EXPECT_EQ(read.header["microbatch1"]["shape"], json({64, 32}));
  EXPECT_EQ(read.values.size(), 2u * 64 * 32 * 4);
  EXPECT_NE(read.values.find_first_not_of('\0'), std::string::npos);
  const CommandResult again = RunLonghaul(command);
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_THAT(again.output, HasSubstr("it is not empty; name a new folder"));
}

}  // namespace
}  // namespace longhaul
