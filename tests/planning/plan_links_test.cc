// Link matrices: what `net probe --json` wrote as links, and what is none.
#include "planning/plan/link_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planning/plan_files.h"

namespace longhaul::plan {
namespace {

using testing::HasSubstr;

TEST(LinkMatrix, AProbeGivesHalfTheRoundTripAndTheGoodputWithHeaders) {
  std::vector<std::string> notes;
  const auto links = ParseProbe(Probe({"b", "a"}, 95.64, 65), "m.json", 2, &notes);
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(links->nodes[0].name, "b") << "in the order in which paths name them";
  ASSERT_EQ(links->paths.size(), 2u);
  EXPECT_NEAR(links->paths[0].rate->value, 95.64e6 * 1514 / 1448, 1);
  EXPECT_EQ(links->paths[0].delay, absl::Milliseconds(32.5));
  const auto again = TopologyToml(*links);
  EXPECT_THAT(again, HasSubstr("from = \"b\"\nto = \"a\"\ndelay_ms = 32.5\nrate_mbit = 99.99"));
}

TEST(LinkMatrix, WhatIsNoMatrixIsOneLine) {
  std::vector<std::string> notes;
  const auto refusal = [&notes](const std::string& text, int nodes) {
    return std::string(ParseProbe(text, "m.json", nodes, &notes).status().message());
  };
  EXPECT_THAT(refusal("[]", 2),
              HasSubstr("m.json: not what 'longhaul net probe LAB --json' writes"));
  EXPECT_THAT(refusal("{\"paths\": [{\"from\": 1}]}", 2), HasSubstr("without 'from' and 'to'"));
  EXPECT_THAT(refusal(Probe({"a", "b"}, 10, 5), 3),
              HasSubstr("has 2 nodes; the run has 3 workers"));
  std::string dead = Probe({"a", "b"}, 10, 5);
  dead.replace(dead.find("\"loss\": 0"), 9, "\"loss\": 1");
  EXPECT_THAT(refusal(dead, 2), HasSubstr("path a > b loses everything"));
  std::string one = Probe({"a", "b"}, 10, 5);
  one.replace(one.find("\"b\""), 3, "\"c\"");
  EXPECT_THAT(refusal(one, 3), HasSubstr("no path a > b"));
  EXPECT_THAT(refusal(Probe({"a", "b"}, -1, 5), 2), HasSubstr("Mbit/s"));
  EXPECT_THAT(std::string(ReadLinkMatrix("/no/m.json", 2, &notes).status().message()),
              HasSubstr("/no/m.json: cannot be read"));
}

// Two nodes whose first path is `a_to_b`, the other one whole.
std::string WithPath(const std::string& a_to_b) {
  return R"({"paths": [{"from": "a", "to": "b", )" + a_to_b +
         R"(}, {"from": "b", "to": "a", "rate_mbit": 9, "in_bounds": true,
             "rtt": {"median_ms": 5, "received": 20}, "goodput": {"mbit": 8}}]})";
}

TEST(LinkMatrix, APathWithoutFiguresIsRefusedByItsCause) {
  const std::string rtt = R"("rtt": {"median_ms": 5, "received": 20})";
  for (
      const auto& [path, says] : std::vector<std::pair<std::string, std::string>>{
          {R"("carrier": "down", "in_bounds": false, "why": "path a > b is down; bring it up")",
           "path a > b was down when it was probed"},
          {R"("carrier": "up", "in_bounds": false, "why": "path a > b the way back, b > a, is down")",
           "has no round trip: rtt.median_ms is missing; the probe says: path a > b the way back"},
          {R"("rate_mbit": 5)", "has no round trip: rtt.median_ms is missing; probe it again"},
          {R"("rtt": {"median_ms": null})", "has no round trip: rtt.median_ms is null"},
          {R"("rtt": {"median_ms": -5})", "has no round trip: rtt.median_ms is -5"},
          {R"("rtt": {"median_ms": 0})", "has no round trip: rtt.median_ms is 0"},
          {R"("rtt": {"median_ms": "65 ms"})", "rtt.median_ms is \"65 ms\""},
          {R"("rtt": {"median_ms": 5, "received": 0})", "answered no echo"},
          {rtt + R"(, "rate_mbit": 9, "goodput": {"mbit": null})", "goodput.mbit is null"},
          {rtt + R"(, "rate_mbit": 9, "goodput": null)", "goodput.mbit has no figure"},
          {rtt + R"(, "goodput": {"mbit": 0})", "has 0 Mbit/s"},
          {rtt, "has neither goodput.mbit nor rate_mbit"}}) {
    std::vector<std::string> notes;
    const auto links = ParseProbe(WithPath(path), "m.json", 2, &notes);
    ASSERT_FALSE(links.ok()) << path;
    EXPECT_THAT(std::string(links.status().message()),
                testing::AllOf(testing::StartsWith("m.json: path a > b "), HasSubstr(says)));
  }
  std::vector<std::string> notes;
  EXPECT_THAT(std::string(ParseProbe("not json", "m.json", 2, &notes).status().message()),
              HasSubstr("m.json: no JSON"));
  EXPECT_THAT(
      std::string(ParseProbe(WithPath(R"("rtt": {"median_ms": 1e999})"), "m.json", 2, &notes)
                      .status()
                      .message()),
      HasSubstr("no JSON, or a number too large"));
}

TEST(LinkMatrix, WhatIsNotAsMeasuredInBoundsIsSaid) {
  const std::string rtt = R"("rtt": {"median_ms": 5, "received": 20})";
  for (const auto& [path, says] : std::vector<std::pair<std::string, std::string>>{
           {rtt + R"(, "goodput": {"mbit": 5}, "in_bounds": false, "why": "goodput 5, want 9")",
            "path a > b was out of bounds when it was probed: goodput 5, want 9"},
           {rtt + R"(, "rate_mbit": 9)", "path a > b has no measured rate: its nominal 9 Mbit/s"},
           {rtt + R"(, "rate_mbit": null)", "path a > b has no rate, measured or nominal"}}) {
    std::vector<std::string> notes;
    const auto links = ParseProbe(WithPath(path), "m.json", 2, &notes);
    ASSERT_TRUE(links.ok()) << links.status();
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0], HasSubstr(says));
  }
  // A node of a matrix is looked up by nobody.
  std::vector<std::string> notes;
  EXPECT_TRUE(ParseProbe(Probe({"0", "10.1.2.3"}, 9, 5), "m.json", 2, &notes).ok());
}

}  // namespace
}  // namespace longhaul::plan
