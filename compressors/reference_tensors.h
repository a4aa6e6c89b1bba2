#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul {

// The four distributions on which the errors of codecs are stated.
enum class Distribution : uint8_t {
  kGaussian,   // N(0, 1)
  kLaplace,    // density exp(-|x|) / 2
  kStudentT4,  // N / sqrt(mean of four squared N): heavy tails
  kOutlier,    // Gaussian, element 17 of every 64 times 60: a channel that stands out
};
constexpr std::array<Distribution, 4> kDistributions = {
    Distribution::kGaussian, Distribution::kLaplace, Distribution::kStudentT4,
    Distribution::kOutlier};

std::string_view DistributionName(Distribution distribution);

// n draws, the same for the same seed (up to the last bits of libm).
std::vector<float> DrawReference(Distribution distribution, size_t n, uint64_t seed);

// ||x - y||^2 / ||x||^2; 0 for equal tensors.
double Nmse(const std::vector<float>& x, const std::vector<float>& y);

}  // namespace longhaul
