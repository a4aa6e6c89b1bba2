#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul {

constexpr size_t kSignBlock = 256;  // elements under one scale (families/sign.h)

// What a block's bits stand for, of the three codecs.
enum class SignLevels : uint8_t {
  kMean = 0,      // +-mean |x|
  kRms = 1,       // +-sqrt(mean x^2)
  kTwoLevel = 2,  // the mean of the elements >= 0, and of the others
};

}  // namespace longhaul
