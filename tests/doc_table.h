#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace longhaul {

// A page has `table` between the comments "<!-- table NAME -->" and "<!-- end -->". With
// LONGHAUL_WRITE_GOLDEN in the environment it is written there in place of what stands.
inline void ExpectTableInPage(const std::string& page, const std::string& name,
                              const std::string& table) {
  std::stringstream read;
  read << std::ifstream(page).rdbuf();
  std::string text = read.str();
  const std::string opens = "<!-- table " + name + " -->\n", closes = "<!-- end -->";
  const size_t found = text.find(opens), begin = found + opens.size();
  ASSERT_NE(found, std::string::npos) << page << " has no " << opens;
  const size_t end = text.find(closes, begin);
  ASSERT_NE(end, std::string::npos) << page << " has no " << closes << " behind " << opens;
  if (std::getenv("LONGHAUL_WRITE_GOLDEN") != nullptr) {
    std::ofstream(page) << text.replace(begin, end - begin, table);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), table)
      << "write it anew: LONGHAUL_WRITE_GOLDEN=1 and this test";
}

}  // namespace longhaul
