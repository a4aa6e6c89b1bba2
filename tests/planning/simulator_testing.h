#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "planning/simulator/profiles.h"

namespace longhaul::simulator {

// A number as a document prints it.
inline std::string Printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Computed columns: 1e-5 relative.
inline void ExpectNearRel(double got, double want, const char* file, int line) {
  const testing::ScopedTrace trace(file, line, "");
  EXPECT_NEAR(got, want, 1e-5 * std::abs(want));
}
#define EXPECT_NEAR_REL(got, want) ExpectNearRel((got), (want), __FILE__, __LINE__)

}  // namespace longhaul::simulator
