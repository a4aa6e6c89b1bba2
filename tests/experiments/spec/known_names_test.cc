#include "experiments/spec/known_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(CatalogNames, KnowsTheCataloguesAndListsThem) {
  const SpecNames names = CatalogNames();
  EXPECT_TRUE(names.codec("int4-b64-h64").ok());
  EXPECT_TRUE(names.profile("continental-us").ok());
  EXPECT_TRUE(names.schedule("gpipe").ok());
  EXPECT_THAT(std::string(names.codec("int5").message()), HasSubstr("int4-b64-h64"));
  EXPECT_THAT(std::string(names.schedule("gpip").message()), HasSubstr("1f1b"));
  EXPECT_THAT(std::string(names.profile("mars").message()), HasSubstr("continental-us"));
}

}  // namespace
}  // namespace longhaul
