// --json puts one document on stdout and nothing else there, --quiet drops what is progress; `list`
// sees what they wrote.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The headers' held-out windows: some are in other headers, which is no progress and so is said.
constexpr char kNote[] = "note: [0-9]+ of 8 held-out windows are in the training text: [^\n]*\n";

class Output : public testing::Test {
 protected:
  // Through a shell, which keeps the two streams apart.
  CommandResult Stdout(const std::string& arguments) {
    return RunProgram(
        {"/bin/sh", "-c", LONGHAUL_BINARY " " + arguments + " 2>" + scratch_.path() + "/stderr"});
  }
  std::string Stderr() { return ReadFile(scratch_.path() + "/stderr"); }
  std::string Spec() { return scratch_.File("tiny.toml", TinySpec()); }
  // 2 budgets and 1 arm, one seed: three runs of a few steps.
  std::string Campaign() {
    std::string base = TinySpec();
    for (const std::string line : {"seed = 1\n", "steps = 6\n", "stages = 2\n"}) {
      base.erase(base.find(line), line.size());
    }
    const size_t boundary = base.find("[boundary]"), outer = base.find("[outer]");
    base.erase(boundary, outer - boundary);
    return scratch_.File("campaign.toml",
                         "[campaign]\nname = \"c\"\nquestion = \"?\"\nseeds = [1]\n"
                         "d0_tokens = 4096\nbudgets = [0.5, 1.0]\n[[arm]]\nname = \"s2\"\n"
                         "stages = 2\nforward = \"int8-b64\"\nbackward = \"int8-b64\"\n" +
                             base);
  }
  const std::string& results() const { return results_; }

  ScratchFolder scratch_;
  const std::string results_ = scratch_.path() + "/results";
};

// Text of 2,080 bytes, twice over: the last 65 of 4,160 are held out, two windows of 32 tokens, and
// the first copy has them. 64 steps of 4 x 32 tokens pass the other 4,095 twice. In the document and
// on stderr.
TEST_F(Output, HeldOutTextThatIsTrainedOnAndEpochsAreSaid) {
  std::string text;
  for (int i = 0; text.size() < 2080; ++i) text += "line " + std::to_string(i * i) + "\n";
  const std::string file = scratch_.File("a.txt", text.substr(0, 2080));
  const std::string command = "run " + Spec() + " --set data.source=text:" + file + "," + file +
                              " --set eval.rows=2 --results " + results();
  for (const std::string mode : {" --json", " --quiet"}) {
    const CommandResult run = Stdout(command + mode);
    ASSERT_EQ(run.exit_status, 0) << Stderr();
    EXPECT_THAT(Stderr(), AllOf(HasSubstr("note: 2 of 2 held-out windows are in the training text"),
                                Not(HasSubstr("epochs:"))));
    if (mode == " --quiet") continue;
    EXPECT_EQ(json::parse(run.output)["notes"].size(), 1u);
  }
  const CommandResult twice = Stdout(command + " --quiet --set train.steps=64");
  ASSERT_EQ(twice.exit_status, 0) << Stderr();
  EXPECT_THAT(Stderr(), HasSubstr("note: 2 epochs: 8192 training tokens"));
}

TEST_F(Output, JsonOfARunIsOneDocumentThatAgreesWithTheRecord) {
  const CommandResult run = Stdout("run " + Spec() + " --json --results " + results());
  ASSERT_EQ(run.exit_status, 0) << Stderr();
  const json document = json::parse(run.output);  // throws where anything else is there
  EXPECT_EQ(document["schema"], "longhaul.run/1");
  EXPECT_TRUE(document["error"].is_null());
  EXPECT_EQ(document["status"], "ok");
  EXPECT_EQ(document["steps_done"], 6);
  const Record record = *Record::Open(results(), Record::Mode::kRead);
  const std::vector<EvaluationRow> rows = *record.RowsOf<EvaluationRow>(document["run"]);
  ASSERT_EQ(document["evaluations"].size(), rows.size());
  EXPECT_EQ(document["evaluations"][0]["loss_nat"], rows[0].loss_nat);
  EXPECT_EQ(document["crossings"].size(), record.RowsOf<CrossingRow>(document["run"])->size());
  EXPECT_GT(document["tokens_per_s"], 0);
  EXPECT_THAT(Stderr(), HasSubstr("step 6/6"));
}

TEST_F(Output, JsonOfWhatFailedBeforeItBeganIsADocumentToo) {
  const CommandResult run = Stdout("run " + scratch_.path() + "/none.toml --json");
  EXPECT_EQ(run.exit_status, 1);
  const json document = json::parse(run.output);
  EXPECT_THAT(std::string(document["error"]), HasSubstr("none.toml"));
  EXPECT_THAT(Stderr(), StartsWith("longhaul: "));
}

TEST_F(Output, QuietJsonSaysNothingOnStderr) {
  const CommandResult run = Stdout("run " + Spec() + " --json --quiet --results " + results());
  EXPECT_EQ(run.exit_status, 0);
  EXPECT_EQ(json::parse(run.output)["status"], "ok");
  EXPECT_EQ(Stderr(), "");
}

TEST_F(Output, AQuietRunIsOneLine) {
  const CommandResult run = Stdout("run " + Spec() + " --quiet --results " + results());
  EXPECT_EQ(run.exit_status, 0);
  EXPECT_EQ(std::count(run.output.begin(), run.output.end(), '\n'), 1) << run.output;
  EXPECT_THAT(run.output, AllOf(StartsWith("run 1 of "), HasSubstr("ok, 6/6 steps")));
  EXPECT_THAT(Stderr(),
              testing::MatchesRegex(std::string(kNote) +
                                    "note: this run learnt no more than byte frequencies: "
                                    "[^\n]*\n"));
}

TEST_F(Output, MeasureQuietThenJsonThenList) {
  const std::string folder = results() + " of it", typed = "'" + folder + "'";
  const std::string measure = "measure " + Campaign() + " --accept-unresolved --results " + typed;
  const CommandResult quiet = Stdout(measure + " --quiet");
  ASSERT_EQ(quiet.exit_status, 0) << Stderr();
  EXPECT_THAT(Stderr(), testing::MatchesRegex(kNote));
  EXPECT_THAT(quiet.output,
              AllOf(HasSubstr("report: longhaul report " + typed + "\n"), Not(HasSubstr("left"))));
  const CommandResult again = Stdout(measure + " --json");  // nothing is left to run
  ASSERT_EQ(again.exit_status, 0) << Stderr();
  const json document = json::parse(again.output);
  EXPECT_EQ(document["schema"], "longhaul.measure/1");
  EXPECT_EQ(document["state"], "complete");
  EXPECT_EQ(document["runs"].size(), 3u);
  EXPECT_EQ(document["accepted_unresolved"], true);
  EXPECT_THAT(std::string(document["forecast"]), HasSubstr("Resolution forecast: n = "));
  const CommandResult list = Stdout("list " + scratch_.path() + " --json");
  ASSERT_EQ(list.exit_status, 0) << Stderr();
  const json listed = json::parse(list.output);
  EXPECT_EQ(listed["records"][0]["folder"], folder);
  EXPECT_EQ(listed["records"][0]["experiments"][0]["runs"], document["runs"]);
}

TEST_F(Output, ListOfAMissingFolderIsOneLine) {
  const CommandResult list = Stdout("list " + scratch_.path() + "/none");
  EXPECT_EQ(list.exit_status, 1);
  EXPECT_EQ(list.output, "");
  const std::string error = Stderr();
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  EXPECT_THAT(error, AllOf(StartsWith("longhaul: list '"), HasSubstr("no such folder")));
  EXPECT_EQ(Stdout("list " + scratch_.path()).exit_status, 0);
}

// A key that `spec` does not show, or shows with another default than the reader's, is a lie.
TEST_F(Output, SpecShowsEveryKeyOfAResolvedSpecWithItsDefault) {
  const CommandResult shown = Stdout("spec --json");
  ASSERT_EQ(shown.exit_status, 0) << Stderr();
  const json keys = json::parse(shown.output)["keys"];
  const CommandResult run = Stdout("run " + Spec() + " --quiet --results " + results());
  ASSERT_EQ(run.exit_status, 0) << Stderr();
  const Record record = *Record::Open(results(), Record::Mode::kRead);
  const RunRow row = record.Runs(1)->front();
  for (const json& key : keys) {
    const std::string name = key["key"];
    const std::string last = name.substr(name.rfind('.') + 1);
    if (key["default"].is_null() || key["default"] == "-" || key["default"] == "[]" ||
        key["default"] == "\"\"") {
      continue;
    }
    EXPECT_THAT(row.spec_toml, HasSubstr(last + " = ")) << name;
    const bool given = TinySpec().find(last + " = ") != std::string::npos;
    if (given) continue;
    const std::string line = row.spec_toml.substr(row.spec_toml.find("\n" + last + " = ") + 1);
    const std::string value = line.substr(last.size() + 3, line.find('\n') - last.size() - 3);
    const std::string wanted = key["default"];
    EXPECT_TRUE(value == wanted ||
                std::strtod(value.c_str(), nullptr) == std::strtod(wanted.c_str(), nullptr))
        << name << ": " << value << " against " << wanted;
  }
}

// docs/reference/spec-keys.md is what `spec --json` says: LONGHAUL_WRITE_DOCS=1 writes it.
TEST_F(Output, TheReferenceOfKeysIsWhatSpecSays) {
  const CommandResult shown = Stdout("spec --json");
  ASSERT_EQ(shown.exit_status, 0) << Stderr();
  const auto cell = [](const json& value) {
    std::string text = value;
    for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
      text.insert(at, 1, '\\');
    return text;
  };
  std::string page =
      "# Keys of a run spec\n\n`longhaul spec` prints the same list. Tables with separate keys: "
      "`[boundary.policy]` and `[boundary.cuts]` ([boundary methods](../boundary-methods.md)), "
      "`outer.schedule` and `[[fault]]` ([faults](../faults.md)), `[compute]` ([virtual "
      "time](../virtual-time.md)), `[campaign]` and `[[arm]]` ([campaigns](../campaigns.md)), "
      "`[program]` ([own program](../own-program.md)).\n";
  std::string table;
  const json document = json::parse(shown.output);
  for (const json& key : document["keys"]) {
    const std::string path = key["key"];
    const std::string its = path.substr(0, path.find('.'));
    if (its != table) {
      page += "\n## " + std::string(path == its ? "Top level" : "[" + its + "]") +
              "\n\n| key | meaning | values | default |\n|---|---|---|---|\n";
      table = its;
    }
    const std::string unit = key["unit"];
    const std::string value =
        key["required"] ? "required"
        : key["default"] == "-" || key["default"] == "\"\"" || key["default"] == "[]"
            ? "not given"
            : "`" + cell(key["default"]) + "`";
    page += "| `" + path + "` | " + cell(key["meaning"]) + " | " + cell(key["may_be"]) +
            (unit.empty() ? "" : " " + unit) + " | " + value + " |\n";
  }
  const std::string file = LONGHAUL_RESULTS "/../reference/spec-keys.md";
  if (std::getenv("LONGHAUL_WRITE_DOCS") != nullptr) {
    std::ofstream(file) << page;
  } else {
    EXPECT_EQ(ReadFile(file), page) << "LONGHAUL_WRITE_DOCS=1 writes it";
  }
}

TEST_F(Output, CompletionIsAScriptThatCompletes) {
  for (const std::string shell : {"bash", "zsh"}) {
    const CommandResult script = Stdout("completion " + shell);
    ASSERT_EQ(script.exit_status, 0) << Stderr();
    EXPECT_THAT(script.output, HasSubstr("complete -o filenames -F _longhaul longhaul"));
  }
  const CommandResult done = RunProgram(
      {"/bin/bash", "-c",
       "source <(" LONGHAUL_BINARY " completion bash); COMP_WORDS=(longhaul net ca); COMP_CWORD=2; "
       "_longhaul; echo \"${COMPREPLY[0]}\"; COMP_WORDS=(longhaul measure --rec); COMP_CWORD=2; "
       "_longhaul; echo \"${COMPREPLY[0]}\""});
  EXPECT_EQ(done.output, "capture\n--records\n");
  EXPECT_NE(Stdout("completion fish").exit_status, 0);
}

// Nothing of what was printed may be lost without a word, whatever the command.
TEST_F(Output, AStandardOutputThatTakesNothingIsAFailureOfEveryCommand) {
  ASSERT_EQ(Stdout("run " + Spec() + " --results " + results()).exit_status, 0) << Stderr();
  for (const std::string& command :
       {std::string("spec"), std::string("spec --json"), std::string("--help"),
        std::string("net --help"), std::string("weights --help"), std::string("--version"),
        std::string("completion bash"), std::string("doctor"), "list " + results(),
        "list " + results() + " --json", "compare " + results() + " 1 1",
        "report " + results() + " --out " + scratch_.path() + "/page",
        "run " + Spec() + " --quiet --results " + results(),
        "run " + Spec() + " --json --quiet --results " + results()}) {
    for (const std::string closed : {" >/dev/full", " >&-"}) {
      const CommandResult run = Stdout(command + closed);
      EXPECT_EQ(run.exit_status, 1) << command << closed << Stderr();
      EXPECT_THAT(Stderr(), HasSubstr("longhaul: write to standard output: ")) << command << closed;
    }
  }
}

// As after `make demo`, which builds no engine.
TEST_F(Output, WithoutAnEngineTheCommandsOfTheDemoAreThere) {
  const std::filesystem::path built = std::filesystem::path(LONGHAUL_BINARY).parent_path();
  for (const char* program : {"longhaul", "longhaul-demo"}) {
    std::filesystem::copy_file(built / program, std::filesystem::path(scratch_.path()) / program);
  }
  std::filesystem::create_symlink(built / "python", scratch_.path() + "/python");
  const std::string longhaul = scratch_.path() + "/longhaul";
  const CommandResult run = RunProgram({longhaul, "run", Spec(), "--results", results()});
  EXPECT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(RunProgram({longhaul, "list", results()}).output, HasSubstr("ok"));
  const CommandResult other = RunProgram({longhaul, "schedule", "draw"});
  EXPECT_EQ(other.exit_status, 2);
  EXPECT_THAT(other.output,
              AllOf(HasSubstr("'schedule' is not among the commands that `make demo` builds"),
                    HasSubstr(" run,")));
}

// Its path is said, and wide tables are not there.
void ExpectAScreen(const std::string& output) {
  EXPECT_LE(std::count(output.begin(), output.end(), '\n'), 40) << output;
  EXPECT_THAT(output, HasSubstr("record: "));
  size_t begin = 0;
  for (size_t end; (end = output.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = output.substr(begin, end - begin);
    const auto is = [&line](const char* start) { return line.starts_with(start); };
    if (is("record: ") || is("note: ") || is("advice: ") || is("net.profile = ")) continue;
    EXPECT_LE(line.size(), 130u) << line;
  }
}

TEST_F(Output, ARunAndACampaignPrintAScreen) {
  const CommandResult run = Stdout("run " + Spec() + " --results " + results());
  ASSERT_EQ(run.exit_status, 0) << Stderr();
  ExpectAScreen(run.output);
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("1 group x 2 stages in one process, engine "),
                    HasSubstr("held-out loss, codec off"), Not(HasSubstr("data_hash"))));
  const CommandResult campaign =
      Stdout("measure " + Campaign() + " --accept-unresolved --results " + results() + "-c");
  ASSERT_EQ(campaign.exit_status, 0) << Stderr();
  ExpectAScreen(campaign.output);
  // Seven arms with what the report has of them.
  const CommandResult seven =
      Stdout("measure " LONGHAUL_SPECS "/activation-small.toml --from-losses " LONGHAUL_SPECS
             "/../../docs/results/activation-small/losses.csv --results " +
             results() + "-a");
  ASSERT_EQ(seven.exit_status, 0) << Stderr();
  EXPECT_THAT(seven.output, Not(HasSubstr("Dose and response")));
}

TEST_F(Output, TheResolvedSpecIsPrintedWhereItIsAskedFor) {
  const std::string run = "run " + Spec() + " --results " + results();
  EXPECT_THAT(Stdout(run).output, Not(HasSubstr("weight_decay = ")));
  EXPECT_THAT(Stdout(run + " --verbose").output, HasSubstr("weight_decay = "));
}

TEST_F(Output, ANameOfAnArmIsWithinBoundsBeforeAnythingIsMade) {
  const std::string run = "run " + Spec() + " --results " + results() + " --arm ";
  EXPECT_EQ(Stdout(run + std::string(64, 'a')).exit_status, 0) << Stderr();
  std::filesystem::remove_all(results());
  for (const std::string& name :
       {std::string(65, 'a'), std::string("\"$(printf 'a\\nb')\""), std::string("a@1")}) {
    EXPECT_EQ(Stdout(run + name).exit_status, 1);
    EXPECT_THAT(Stderr(), HasSubstr("want 1 to 64 bytes without control characters and '@'"));
    EXPECT_EQ(Stdout("ingest " + scratch_.path() + " --results " + results() + " --arm " + name)
                  .exit_status,
              1);
    EXPECT_THAT(Stderr(), StartsWith("longhaul: --arm: the name"));
  }
  EXPECT_FALSE(std::filesystem::exists(results()));
}

TEST_F(Output, AnExportOfWeightsEndsWellOrLeavesNothing) {
  const std::string spec =
      scratch_.File("kept.toml", TinySpec() + "[checkpoint]\nevery_steps = 3\n");
  ASSERT_EQ(Stdout("run " + spec + " --results " + results()).exit_status, 0) << Stderr();
  std::string checkpoints;
  for (const auto& entry : std::filesystem::directory_iterator(results() + "/checkpoints")) {
    checkpoints = entry.path();
  }
  const std::string out = scratch_.path() + "/weights";
  const std::string command =
      "export " + checkpoints + " --to safetensors --spec " + spec + " --out ";
  const CommandResult whole = Stdout(command + out);
  EXPECT_EQ(whole.exit_status, 0) << Stderr();
  EXPECT_EQ(Stderr(), "");
  EXPECT_THAT(whole.output, HasSubstr(out));
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
  EXPECT_EQ(Stdout(command + out).exit_status, 1);  // it holds the first one
  EXPECT_THAT(Stderr(), HasSubstr("not an empty folder"));
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
  // A file may have 8 KiB: as on a full disk, the write fails half way.
  const CommandResult half =
      RunProgram({"/bin/bash", "-c",
                  "trap '' XFSZ; ulimit -f 8; exec " LONGHAUL_BINARY " " + command + out + "2"});
  EXPECT_EQ(half.exit_status, 1) << half.output;
  EXPECT_THAT(half.output, HasSubstr("longhaul: cannot write " + out + "2"));
  EXPECT_FALSE(std::filesystem::exists(out + "2"));
}

}  // namespace
}  // namespace longhaul
