// What a spec's files hold, hashed when a run is planned and checked by who reads them.
#include "experiments/train/spec_files.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/files_table.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// By coreutils: `printf abc | sha256sum`; of a.txt ("abc") and b.txt ("hello\n") together
// `sha256sum a.txt b.txt | cut -c1-64 | sha256sum`.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kBoth[] = "f4cec7830fc6049690fc61767d0efd7b64e64e650377e9e83094e20d47825823";

class SpecFiles : public testing::Test {
 protected:
  RunSpec Spec(const std::vector<std::string>& sets) const {
    const std::string path = scratch_.path() + "/run.toml";
    std::ofstream(path) << TinySpec();
    auto spec = LoadRunSpec(path, sets, CatalogNames());
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *std::move(spec);
  }
  std::string File(const std::string& name, const std::string& text) const {
    return scratch_.File(name, text);
  }
  static const FileContent& Of(const RunSpec& spec, const std::string& key) {
    for (const FileContent& file : spec.files) {
      if (file.key == key) return file;
    }
    ADD_FAILURE() << "nothing of " << key;
    return spec.files.front();
  }
  ScratchFolder scratch_;
};

TEST_F(SpecFiles, HashesAreThoseOfSha256sum) {
  const std::string a = File("a.txt", "abc"), b = File("b.txt", "hello\n");
  RunSpec one = Spec({"data.source=text:" + a}), two = Spec({"data.source=text:" + a + "," + b});
  RunSpec pattern = Spec({"data.source=text:" + scratch_.path() + "/*.txt"});
  ASSERT_TRUE(PinFiles(one, kAllFiles).ok());
  ASSERT_TRUE(PinFiles(two, kAllFiles).ok());
  ASSERT_TRUE(PinFiles(pattern, kAllFiles).ok());
  EXPECT_EQ(Of(one, "data.source").sha256, kAbc);
  EXPECT_EQ(Of(one, "data.source").bytes, 3);
  EXPECT_EQ(Of(two, "data.source").sha256, kBoth);
  EXPECT_EQ(Of(two, "data.source").bytes, 9);
  EXPECT_EQ(Of(two, "data.source").files, 2);
  EXPECT_EQ(Of(pattern, "data.source").sha256, kBoth);
  File("c.txt", "more");  // matches the pattern now
  EXPECT_FALSE(CheckFiles(pattern, kAllFiles).ok());
  EXPECT_TRUE(CheckFiles(two, kAllFiles).ok());
}

// A value of every kind of key that names files, and the file that is to change.
struct Named {
  std::string value, file;
};

class EveryKey : public SpecFiles {
 protected:
  Named NamedBy(const SpecKey& key) const {
    switch (key.names) {
      case Names::kCorpus: {
        const std::string path = File(std::string(key.name) + ".txt", "abc");
        return {"text:" + path, path};
      }
      case Names::kWeights: {
        File("part.safetensors", "weights");
        const std::string index =
            File("model.safetensors.index.json", R"({"weight_map":{"w":"part.safetensors"}})");
        return {index, scratch_.path() + "/part.safetensors"};
      }
      case Names::kLinks: {
        const std::string csv = File("rtt.csv", "rtt_ms,a,b\na,,20\nb,20,\n");
        const std::string path = File("links.toml", "[matrix]\ncsv = \"rtt.csv\"\n");
        return {path, csv};
      }
      case Names::kCheckpoints: {
        std::filesystem::create_directories(scratch_.path() + "/left");
        return {scratch_.path() + "/left", File("left/step-1", "state")};
      }
      case Names::kProgram: {
        const std::string path = File("schedule.csv", "0F0,0B0\n");
        return {path, path};
      }
      case Names::kPython: {
        const std::string path = File("mine.py", "class Mine: pass\n");
        return {"python:" + path + ":Mine", path};
      }
      case Names::kNothing:
      case Names::kOutput:
        break;
    }
    ADD_FAILURE() << key.path() << ": this test has no value for a key of its kind";
    return {};
  }
};

TEST_F(EveryKey, ThatNamesFilesIsHashedAndChecked) {
  int keys = 0;
  for (const SpecKey& key : SpecKeys()) {
    if (key.names == Names::kNothing || key.names == Names::kOutput) continue;
    SCOPED_TRACE(key.path());
    ++keys;
    const Named named = NamedBy(key);
    RunSpec spec = Spec({"net.transport=ucx"});
    *std::get<SpecKey::Get<std::string>>(key.field)(spec) = named.value;
    ASSERT_TRUE(PinFiles(spec, kAllFiles).ok()) << PinFiles(spec, kAllFiles);
    const std::string planned = Of(spec, key.path()).sha256;
    EXPECT_TRUE(CheckFiles(spec, kAllFiles).ok());
    // As long as before, and its time is set back: not even then it passes.
    const auto time = std::filesystem::last_write_time(named.file);
    std::string text = ReadFile(named.file);
    text.back() = text.back() == '\n' ? ' ' : '#';
    std::ofstream(named.file) << text;
    std::filesystem::last_write_time(named.file, time);
    const absl::Status checked = CheckFiles(spec, kAllFiles);
    EXPECT_EQ(checked.code(), absl::StatusCode::kFailedPrecondition) << checked;
    RunSpec anew = spec;
    anew.files.clear();
    ASSERT_TRUE(PinFiles(anew, kAllFiles).ok()) << PinFiles(anew, kAllFiles);
    EXPECT_THAT(
        std::string(checked.message()),
        AllOf(HasSubstr(key.path() + " (" + named.value + ")"), HasSubstr(planned.substr(0, 16)),
              HasSubstr(Of(anew, key.path()).sha256.substr(0, 16))));
    // A spec that wants the old content is refused too.
    EXPECT_THAT(std::string(PinFiles(spec, kAllFiles).message()), HasSubstr("[files] wants"));
  }
  EXPECT_EQ(keys, 7);
}

TEST_F(SpecFiles, AFileThatWasOnlyTouchedIsTheSame) {
  const std::string a = File("a.txt", "abc");
  RunSpec spec = Spec({"data.source=text:" + a});
  ASSERT_TRUE(PinFiles(spec, kAllFiles).ok());
  File("a.txt", "abc");
  EXPECT_TRUE(CheckFiles(spec, kAllFiles).ok());
}

TEST_F(SpecFiles, AProfileIsNoFileNorATopologyThatLoopbackDoesNotRead) {
  RunSpec shaped = Spec({"net.transport=ucx", "net.profile=regional"});
  ASSERT_TRUE(PinFiles(shaped, kAllFiles).ok());
  ASSERT_EQ(shaped.files.size(), 1u);  // the built-in text
  EXPECT_EQ(shaped.files[0].key, "data.source");
  EXPECT_GT(shaped.files[0].files, 1);
  RunSpec loopback = Spec({"net.profile=/none.toml"});
  EXPECT_TRUE(PinFiles(loopback, kAllFiles).ok());
}

// What workers of a lab get: the resolved spec, and the table behind it.
TEST_F(SpecFiles, WorkersReadWhatWasPlanned) {
  RunSpec spec = Spec({"data.source=text:" + File("a.txt", "abc")});
  ASSERT_TRUE(PinFiles(spec, kAllFiles).ok());
  const auto tree = ParseToml(ToToml(spec) + FilesTableText(spec), "spec");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto read = ReadRunSpec(*tree, CatalogNames());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->files.size(), 1u);
  EXPECT_EQ(read->files[0].sha256, kAbc);
  EXPECT_EQ(read->files[0].stamp, spec.files[0].stamp);
  EXPECT_EQ(read->files[0].bytes, 3);
  EXPECT_TRUE(CheckFiles(*read, kAllFiles).ok());
}

TEST_F(SpecFiles, APlanNamesEachValueOnce) {
  const std::string a = File("a.txt", "abc"), b = File("b.txt", "hello\n");
  std::vector<PlannedRun> runs(3);
  runs[0].spec = runs[2].spec = Spec({"data.source=text:" + a});
  runs[1].spec = Spec({"data.source=text:" + b});
  ASSERT_TRUE(PinFiles(runs).ok());
  const auto files = FilesOfPlan(runs);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].sha256, kAbc);
  EXPECT_EQ(files[1].value, "text:" + b);
}

}  // namespace
}  // namespace longhaul
