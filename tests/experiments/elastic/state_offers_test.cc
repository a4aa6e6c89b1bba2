// Which of the states that members offer is believed: no swarm, no store.
#include "experiments/elastic/state_offers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using Offers = std::map<size_t, std::vector<Offer>>;

std::vector<Offer> Of(const std::string& first, const std::string& second = "moments") {
  return OffersIn(first + " 10.0.0.2:4000 " + second + " 10.0.0.2:4001");
}

TEST(MostBelieved, IsTheDigestOfTheMostMembers) {
  EXPECT_EQ(MostBelieved({}), "");
  EXPECT_EQ(MostBelieved({{3, Of("a")}}), "a");
  EXPECT_EQ(MostBelieved({{0, Of("a")}, {1, Of("b")}, {2, Of("b")}}), "b");
  EXPECT_EQ(MostBelieved({{0, Of("b")}, {1, Of("a")}, {2, Of("b")}}), "b");
}

// By place, not by digest: the order of the letters says nothing.
TEST(MostBelieved, AmongEqualsItIsTheLowestPlaces) {
  EXPECT_EQ(MostBelieved({{1, Of("z")}, {4, Of("a")}}), "z");
  EXPECT_EQ(MostBelieved({{1, Of("a")}, {4, Of("z")}}), "a");
  EXPECT_EQ(MostBelieved({{0, Of("c")}, {1, Of("z")}, {2, Of("a")}, {3, Of("a")}, {4, Of("z")}}),
            "z");
}

// The moments differ between all members; they are no vote.
TEST(MostBelieved, CountsTheFirstPartAlone) {
  EXPECT_EQ(MostBelieved({{0, Of("a", "x")}, {1, Of("b", "y")}, {2, Of("b", "z")}}), "b");
}

TEST(OffersIn, TakesPairsOfDigestAndAddressAndNothingElse) {
  const std::vector<Offer> two = OffersIn("aa 10.0.0.2:4000 bb 10.0.1.3:65535");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].digest, "aa");
  EXPECT_EQ(two[1].digest, "bb");
  EXPECT_EQ(two[1].address.port, 65535);
  EXPECT_TRUE(OffersIn("").empty());
  EXPECT_TRUE(OffersIn("aa").empty());
  EXPECT_EQ(OffersIn("aa nowhere bb 10.0.0.2:1").size(), 1u);
}

TEST(ManifestFrom, OfAnotherDigestIsRefused) {
  // printf '' | sha256sum
  constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  EXPECT_THAT(std::string(ManifestFrom("x", kOfNothing).status().message()),
              testing::HasSubstr("has not the SHA-256"));
  EXPECT_THAT(std::string(ManifestFrom("", kOfNothing).status().message()),
              testing::Not(testing::HasSubstr("has not the SHA-256")));
}

}  // namespace
}  // namespace longhaul
