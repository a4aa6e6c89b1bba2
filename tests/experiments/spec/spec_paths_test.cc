// A path in a TOML file counts from the file's folder, one of the command line from the working folder.
#include "experiments/spec/spec_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/spec_keys.h"

namespace longhaul {
namespace {

std::string Text(const TomlValue& root, const std::string& key) {
  const auto* text = FindAs<std::string>(root, key);
  return text == nullptr ? "" : *text;
}

TomlValue Counted(const std::string& file, const std::string& toml,
                  const std::vector<std::string>& sets = {}) {
  TomlValue root = *ParseToml(toml, file);
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
  EXPECT_TRUE(CountPathsFromFile(file, root).ok());
  return root;
}

TEST(SpecPaths, CountFromTheFileTheyStandIn) {
  const std::string toml = R"([data]
source = "text:a.txt,../b.txt,/abs/c.txt"
eval = "headers"
[model]
init = "w/model.safetensors"
[net]
profile = "links.toml"
[program]
folder = "."
[[arm]]
name = "x"
[arm.data]
source = "tokens:d.bin"
)";
  const TomlValue root = Counted("some/specs/spec.toml", toml);
  EXPECT_EQ(Text(root, "data.source"), "text:some/specs/a.txt,some/b.txt,/abs/c.txt");
  EXPECT_EQ(Text(root, "data.eval"), "headers");
  EXPECT_EQ(Text(root, "model.init"), "some/specs/w/model.safetensors");
  EXPECT_EQ(Text(root, "net.profile"), "some/specs/links.toml");
  EXPECT_EQ(Text(root, "program.folder"), "some/specs");
  const auto* arms = FindAs<TomlValue::Array>(root, "arm");
  ASSERT_NE(arms, nullptr);
  EXPECT_EQ(Text(arms->front(), "data.source"), "tokens:some/specs/d.bin");
  EXPECT_EQ(Text(Counted("spec.toml", toml), "data.source"), "text:a.txt,../b.txt,/abs/c.txt");
}

TEST(SpecPaths, OverridesCountFromTheWorkingFolderAndProfilesAreNames) {
  const TomlValue root = Counted("d/spec.toml", "[net]\nprofile = \"regional\"\n",
                                 {"data.source=text:a.txt", "net.transport=ucx"});
  EXPECT_EQ(Text(root, "net.profile"), "regional");
  EXPECT_EQ(Text(root, "data.source"), "text:a.txt");
}

// A key that names a file and is not in the rule would be read from the working folder.
TEST(SpecPaths, EveryKeyThatNamesSomethingIsInTheRule) {
  for (const SpecKey& key : SpecKeys()) {
    if (key.names == Names::kNothing) continue;
    const bool python = key.names == Names::kPython;
    const std::string before = key.names == Names::kCorpus ? "text:" : python ? "python:" : "";
    const std::string after = python ? ":Mine" : "";
    TomlValue root{TomlValue::Table{}, "d/s.toml:1"};
    ASSERT_TRUE(
        SetByPath(root, key.path(), TomlValue{before + "x.toml" + after, "d/s.toml:1"}).ok());
    ASSERT_TRUE(CountPathsFromFile("d/s.toml", root).ok());
    EXPECT_EQ(Text(root, key.path()), before + "d/x.toml" + after) << key.path();
  }
}

}  // namespace
}  // namespace longhaul
