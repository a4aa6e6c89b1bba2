#include "netem/toml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

struct Text {
  const char* name;
  std::string_view text;
  int bad_line;  // 0: fine
};
class TomlText : public testing::TestWithParam<Text> {};

TEST_P(TomlText, IsRefusedOnlyWhereTheParserWouldLook) {
  const absl::Status s = CheckTomlText(GetParam().text, "f.toml");
  EXPECT_EQ(s.ok(), GetParam().bad_line == 0) << s;
  if (GetParam().bad_line > 0) {
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("f.toml:" + std::to_string(GetParam().bad_line) + ": "));
  }
}

// U+00E9 is "\xc3\xa9".
INSTANTIATE_TEST_SUITE_P(
    All, TomlText,
    testing::Values(Text{"Ascii", "a = 1\n", 0}, Text{"Empty", "", 0},
                    Text{"Comment", "a = 1 # caf\xc3\xa9 \"\n#\xc3\xa9\nb = 2", 0},
                    Text{"Basic", "a = \"caf\xc3\xa9\"\n", 0},
                    Text{"Literal", "a = 'caf\xc3\xa9\\' # it ends here\n", 0},
                    Text{"QuotedKey", "\"caf\xc3\xa9\" = 1\n", 0},
                    Text{"EscapedQuote", "a = \"x\\\"\xc3\xa9\"\n", 0},
                    Text{"SeveralLines", "a = \"\"\"\n\xc3\xa9 \"\" \xc3\xa9\n\"\"\"\n", 0},
                    Text{"SeveralLinesWithQuotesAtTheEnd", "a = \"\"\"\xc3\xa9\"\"\"\"\"\nb=1", 0},
                    Text{"LiteralLines", "a = '''\n\xc3\xa9'' \\\xc3\xa9'''\n", 0},
                    Text{"EmptyString", "a = \"\" # \xc3\xa9\n", 0},
                    Text{"ByteOrderMark",
                         "\xef\xbb\xbf"
                         "a = 1\n",
                         0},
                    Text{"InAnArray", "a = ['\xc3\xa9',\"\xc3\xa9\", {b='\xc3\xa9'}]\n", 0},
                    Text{"InANumber", "a = 1.\"\xc3\xa9\"\n", 1},
                    Text{"QuotedKeyAfterADot", "a.\"x \" = \xc3\xa9 \"\n", 1},
                    Text{"BareKey", "\ncaf\xc3\xa9 = 1\n", 2}, Text{"Value", "a = \xc3\xa9\n", 1},
                    Text{"AfterAString", "a = \"\xc3\xa9\"\xc3\xa9\n", 1},
                    Text{"AfterAnEmptyString", "a = \"\"\xc3\xa9\n", 1},
                    Text{"AfterABackslash", "a = \"\\\xc3\xa9\"\n", 1},
                    Text{"AfterALineThatEndsInABackslash", "a = \"\"\"x\\\n \xc3\xa9\"\"\"\n", 2},
                    Text{"AfterAnUnclosedString", "a = \"x\n\xc3\xa9\"\n", 2},
                    Text{"SecondByteOrderMark", "\xef\xbb\xbf\xef\xbb\xbf", 1}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace longhaul
