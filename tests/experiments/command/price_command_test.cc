// `longhaul price` as a user meets it: the loss of a run's own evaluation, what goes into files, and
// every bad input.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Lines of another kind in each third, so that rows differ.
std::string Text(int lines, int salt) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text +=
        "line " + std::to_string(i * i + salt) + (i % 3 == 0 ? " is a number\n" : " and more;\n");
  }
  return text;
}

constexpr char kModel[] =
    "[model]\nkind = \"llama\"\nblocks = 4\nwidth = 64\nheads = 4\nkv_heads = 2\ncontext = 32\n"
    "vocab = 256\n";

// One run of a few steps whose weights every test prices: trained once.
class Price : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    folder_->File("train.txt", Text(600, 1));
    folder_->File("held.txt", Text(30, 77));
    const std::string spec = folder_->File(
        "run.toml",
        std::string("seed = 1\n") + kModel + "engine = \"aten\"\nsave = \"" + Path("w") +
            "\"\n[data]\nsource = \"text:" + Path("train.txt") +
            "\"\neval = \"text:" + Path("held.txt") +
            "\"\n[train]\nsteps = 12\nbatch_rows = 2\nmicrobatches = 2\nlr = 1e-2\n[schedule]\n"
            "kind = \"1f1b\"\nstages = 3\ncuts = [1, 3]\n[boundary]\nforward = \"minmax3-b64\"\n"
            "backward = \"int8-b64\"\n[net]\ntransport = \"loopback\"\n[eval]\nrows = " +
            std::to_string(Rows()) + "\n");
    const CommandResult run = RunProgram(
        {"/bin/sh", "-c",
         LONGHAUL_BINARY " run " + spec + " --json --results " + Path("r") + " 2>/dev/null"});
    ASSERT_EQ(run.exit_status, 0) << run.output;
    run_ = new json(json::parse(run.output));
    std::ofstream(Path("w/model.toml")) << kModel;
  }
  static void TearDownTestSuite() {
    delete run_;
    delete folder_;
  }
  static std::string Path(const std::string& name) { return folder_->path() + "/" + name; }
  static int Rows() {  // all windows of the held-out text
    return static_cast<int>((std::filesystem::file_size(Path("held.txt")) - 1) / 32);
  }
  static std::vector<std::string> Words(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "price", "--weights", Path("w"), "--tokens", "text:" + Path("held.txt"), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static json Json(std::vector<std::string> more) {
    more.push_back("--json");
    more.push_back(Path("out.json"));
    const CommandResult result = RunLonghaul(Words(more));
    EXPECT_EQ(result.exit_status, 0) << result.output;
    return json::parse(ReadFile(Path("out.json")));
  }
  static std::string Refusal(const std::vector<std::string>& words) {
    const CommandResult result = RunLonghaul(words);
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    return result.output;
  }

  static ScratchFolder* folder_;
  static json* run_;
};
ScratchFolder* Price::folder_ = nullptr;
json* Price::run_ = nullptr;

// The run evaluated the same weights over its own boundaries: process groups, channels, frames.
TEST_F(Price, LossesAreThoseOfTheRunThatMadeTheWeights) {
  const json out = Json({"--codec", "minmax3-b64", "--cuts", "1,3", "--rows",
                         std::to_string(Rows()), "--gradient-rows", "0"});
  double off = 0, on = 0;
  for (const json& evaluation : (*run_)["evaluations"]) {
    (evaluation["codec"] == "on" ? on : off) = evaluation["loss_nat"].get<double>();
  }
  const double exact = out["uncompressed_nat_per_token"]["value"];
  const double delta = out["depths"][0]["delta_nat_per_token"]["value"];
  EXPECT_NEAR(exact, off, 1e-9);
  EXPECT_NEAR(exact + delta, on, 1e-9);
  EXPECT_GT(std::abs(delta), 1e-5);
}

TEST_F(Price, IntervalsAreOfTheRowsInTheFile) {
  const json out =
      Json({"--codec", "int4-b64", "--codec", "identity", "--stages", "2,4", "--rows", "6",
            "--gradient-rows", "5", "--csv", Path("rows.csv"), "--report", Path("page.html")});
  // S = 4 with int4-b64: from the CSV's own lines.
  std::ifstream csv(Path("rows.csv"));
  std::vector<double> delta;
  for (std::string line; std::getline(csv, line);) {
    const std::string arm = ",\"1 int4-b64, 2 int4-b64, 3 int4-b64\",";
    const size_t at = line.find("forward" + arm);
    if (at == std::string::npos || !line.starts_with("priced,")) continue;
    const std::string numbers = line.substr(at + 7 + arm.size());
    delta.push_back(std::stod(numbers) - std::stod(numbers.substr(numbers.find(',') + 1)));
  }
  ASSERT_EQ(delta.size(), 6U);
  double mean = 0, squares = 0;
  for (const double d : delta) mean += d / 6;
  for (const double d : delta) squares += (d - mean) * (d - mean);
  const double half = 2.570582 * std::sqrt(squares / 5 / 6);  // t(0.975, 5)
  json found;
  for (const json& depth : out["depths"]) {
    if (depth["stages"] == 4 && depth["codec"] == "int4-b64") found = depth["delta_nat_per_token"];
    if (depth["codec"] == "identity") {
      EXPECT_EQ(depth["delta_nat_per_token"]["value"], 0.0);
      EXPECT_EQ(depth["delta_nat_per_token"]["high"], 0.0);
    }
  }
  EXPECT_NEAR(found["value"], mean, 1e-12);
  EXPECT_NEAR(found["low"], mean - half, 1e-7);
  EXPECT_NEAR(found["high"], mean + half, 1e-7);
  EXPECT_EQ(out["gradients"].size(), 2U * 2 * 3);
  EXPECT_EQ(out["conditions"]["weights_sha256"].get<std::string>().size(), 64U);
  EXPECT_THAT(ReadFile(Path("page.html")), AllOf(HasSubstr("int4-b64"), HasSubstr("</html>")));
}

TEST_F(Price, AChoiceIsTriedOnOtherRows) {
  const json out =
      Json({"--codec", "int8-b64", "--codec", "minmax2-b64", "--stages", "2", "--rows", "8",
            "--budget", "5", "--move", "0", "--gradient-rows", "0", "--csv", Path("chosen.csv")});
  // Two bits fit into so large a budget.
  ASSERT_EQ(out["choices"].size(), 1U);
  EXPECT_EQ(out["choices"][0]["choice"][0]["codec"], "minmax2-b64");
  EXPECT_EQ(out["choices"][0]["verdict"], "within the budget");
  const std::string csv = ReadFile(Path("chosen.csv"));
  std::map<std::string, std::set<std::string>> windows;  // by part
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string part, row, window;
    std::getline(cells, part, ',');
    std::getline(cells, row, ',');
    std::getline(cells, window, ',');
    windows[part].insert(window);
  }
  EXPECT_EQ(windows["priced"].size(), 8U);
  EXPECT_EQ(windows["verified"].size(), 8U);
  for (const std::string& window : windows["verified"]) {
    EXPECT_FALSE(windows["priced"].contains(window)) << window;
  }
  const CommandResult none =
      RunLonghaul(Words({"--codec", "minmax2-b64", "--stages", "2", "--rows", "8", "--budget",
                         "1e-9", "--move", "0", "--gradient-rows", "0", "--quiet"}));
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_THAT(none.output, AllOf(HasSubstr("bits/el"),
                                 HasSubstr("--budget 1e-09: with S = 2, no "
                                           "choice of these codecs"),
                                 HasSubstr("the least is")));
}

TEST_F(Price, WhatIsWrongIsOneLine) {
  const std::vector<std::string> codec = {"--codec", "int4-b64"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), codec.begin(), codec.end());
    return Refusal(Words(more));
  };
  EXPECT_THAT(Refusal(Words({"--codec", "int5-b64"})), HasSubstr("int5-b64"));
  EXPECT_THAT(Refusal(Words({"--codec", "int4-b64+ef"})), HasSubstr("keeps a state"));
  EXPECT_THAT(with({"--codec", "int4-b64"}), HasSubstr("twice"));
  EXPECT_THAT(with({"--stages", "5"}), HasSubstr("--stages 5: want 2 to 4"));
  EXPECT_THAT(with({"--stages", "1"}), HasSubstr("want 2 to 4"));
  EXPECT_THAT(with({"--cuts", "2,4"}), HasSubstr("from 1 to 3"));
  EXPECT_THAT(with({"--rows", "4"}), HasSubstr("an interval wants 5 or more"));
  EXPECT_THAT(with({"--rows", "4000"}), AllOf(HasSubstr("rows of 32"), HasSubstr("want 4000")));
  EXPECT_THAT(with({"--rows", "20", "--budget", "1"}), HasSubstr("as many to verify a choice"));
  EXPECT_THAT(with({"--context", "64"}), HasSubstr("at most 32"));
  EXPECT_THAT(with({"--budget", "-1"}), HasSubstr("above 0"));
  EXPECT_EQ(RunLonghaul(Words({"--codec", "int4-b64", "--budget", "nan"})).exit_status, 2);
  EXPECT_THAT(with({"--allow", "0"}), HasSubstr("above 0"));
  EXPECT_THAT(with({"--move", "1"}), HasSubstr("--budget"));
  EXPECT_THAT(with({"--gradient-rows", "2"}), HasSubstr("5 or more"));
  std::vector<std::string> threads = Words(codec);
  *(std::find(threads.begin(), threads.end(), "--threads") + 1) = "0";
  EXPECT_THAT(Refusal(threads), HasSubstr("--threads 0"));
  *(std::find(threads.begin(), threads.end(), "--threads") + 1) = "4294967297";  // 1, as an int
  EXPECT_THAT(Refusal(threads), HasSubstr("--threads 4294967297: want 1 to 4096"));
  EXPECT_THAT(with({"--csv", "/nowhere/rows.csv"}), HasSubstr("/nowhere/rows.csv"));
  with({"--csv", Path("left.csv"), "--report", "/nowhere/page.html"});
  EXPECT_FALSE(std::filesystem::exists(Path("left.csv"))) << "nothing is left of what failed";
}

TEST_F(Price, FilesThatDoNotFitAreOneLine) {
  const auto refusal = [&](const std::string& weights, const std::string& tokens,
                           const std::string& model = "") {
    std::vector<std::string> words = {"price", "--weights", weights,   "--tokens",
                                      tokens,  "--codec",   "int4-b64"};
    if (!model.empty()) words.insert(words.end(), {"--model", model});
    return Refusal(words);
  };
  const std::string text = "text:" + Path("held.txt");
  EXPECT_THAT(refusal(Path("nothing"), text), HasSubstr("nothing: no such file or folder"));
  EXPECT_THAT(refusal(Path("train.txt"), text), HasSubstr("no model.toml beside it"));
  EXPECT_THAT(refusal(Path("nothing"), text, Path("w/model.toml")), HasSubstr("nothing"));
  EXPECT_THAT(refusal(Path("train.txt"), text, Path("w/model.toml")), HasSubstr("train.txt"));
  std::string wider = kModel;
  wider.replace(wider.find("width = 64"), 10, "width = 96");
  EXPECT_THAT(refusal(Path("w"), text, folder_->File("wider.toml", wider)),
              AllOf(HasSubstr("[256, 64]"), HasSubstr("[256, 96]")));
  EXPECT_THAT(refusal(Path("w"), text, folder_->File("none.toml", "seed = 1\n")),
              HasSubstr("no table [model]"));
  EXPECT_THAT(
      refusal(Path("w"), text, folder_->File("odd.toml", std::string(kModel) + "wide = 1\n")),
      HasSubstr("model.wide"));
  EXPECT_THAT(refusal(Path("w"), Path("no.bin")), HasSubstr("no.bin"));
  EXPECT_THAT(refusal(Path("w"), "text:" + folder_->File("short.txt", "too short\n")),
              HasSubstr("want 5"));
  std::string ids;
  for (int i = 0; i < 4000; ++i) ids += {static_cast<char>(i % 200), i % 1000 == 999 ? '\1' : '\0'};
  EXPECT_THAT(refusal(Path("w"), folder_->File("ids.bin", ids)),
              AllOf(HasSubstr("ids.bin"), HasSubstr("256")));
  std::filesystem::copy(Path("w"), Path("i"));
  const std::string part = Path("i/model-00001-of-00003.safetensors");
  std::string integers = ReadFile(part);
  for (size_t at = 0; (at = integers.find("\"F32\"", at)) != std::string::npos;) {
    integers.replace(at, 5, "\"I32\"");
  }
  std::ofstream(part, std::ios::binary) << integers;
  EXPECT_THAT(refusal(Path("i"), text), HasSubstr("want F32, BF16 or F16"));
  // 0x7fc00000 is NaN: the first value of what 'A' becomes, in the first tensor, which is [256, 64].
  std::string nan = ReadFile(Path("w/model-00001-of-00003.safetensors"));
  std::filesystem::copy(Path("w"), Path("nan"));
  uint64_t header = 0;
  std::memcpy(&header, nan.data(), sizeof(header));
  nan.replace(8 + header + size_t{4} * 64 * 'A', 4, std::string("\0\0\xc0\x7f", 4));
  std::ofstream(Path("nan/model-00001-of-00003.safetensors"), std::ios::binary) << nan;
  std::ofstream(Path("same.txt")) << std::string(400, 'A');
  EXPECT_THAT(refusal(Path("nan"), "text:" + Path("same.txt")),
              HasSubstr("the weights hold NaN or Inf"));
}

// Rows that stand in the text that the model's own spec trains on.
TEST_F(Price, TextThatWasTrainedOnIsSaid) {
  const auto notes = [](const std::string& text) {
    const CommandResult priced =
        RunLonghaul({"price", "--weights", Path("w"), "--model", Path("run.toml"), "--tokens",
                     "text:" + text, "--codec", "int4-b64", "--stages", "2", "--rows", "6",
                     "--gradient-rows", "0", "--json", Path("seen.json")});
    EXPECT_EQ(priced.exit_status, 0) << priced.output;
    return json::parse(ReadFile(Path("seen.json")))["notes"].dump();
  };
  EXPECT_THAT(notes(Path("train.txt")), HasSubstr("6 of the 6 rows stand in text:"));
  EXPECT_EQ(notes(Path("held.txt")).find("rows stand in"), std::string::npos);
}

TEST_F(Price, JsonOnStdoutIsOneDocumentWithAnErrorToo) {
  const auto document = [&](const std::string& more) {
    const CommandResult result = RunProgram(
        {"/bin/sh", "-c",
         LONGHAUL_BINARY " price --weights " + Path("w") + " --tokens text:" + Path("held.txt") +
             " --codec int4-b64 --stages 2 --rows 5 --gradient-rows 0 " + more +
             " --json 2>/dev/null"});
    return json::parse(result.output);
  };
  EXPECT_EQ(document("")["error"], nullptr);
  const json failed = document("--cuts 9");
  EXPECT_EQ(failed["schema"], "longhaul.price/1");
  EXPECT_THAT(failed["error"].get<std::string>(), HasSubstr("--cuts '9'"));
}

TEST_F(Price, HelpNamesUnitsAndCompletionKnowsTheOptions) {
  const std::string help = RunLonghaul({"price", "--help"}).output;
  EXPECT_THAT(help,
              AllOf(HasSubstr("nat/token"), HasSubstr("Tokens per row"), HasSubstr("--cuts")));
  const std::string words = RunLonghaul({"completion", "bash"}).output;
  EXPECT_THAT(words, AllOf(HasSubstr("\"price\") words="), HasSubstr("--gradient-rows")));
}

}  // namespace
}  // namespace longhaul
