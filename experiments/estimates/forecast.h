#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

// How noisy runs are, and where that is known from.
struct Noise {
  double sigma_nat;        // spread of the final loss between seeds
  double rho;              // correlation of two arms of one seed
  double slope_nat;        // s, per e-fold of tokens
  std::string source;      // "pilot" (earlier runs of this record) or "assumed"
  double SdDelta() const;  // of a paired difference: sigma sqrt(2 (1 - rho))
};

// K = S - 1 per compressed direction.
struct Depth {
  int64_t stages;
  int64_t crossings;
  friend auto operator<=>(const Depth&, const Depth&) = default;
};
// "4", or "4 one way" where one direction alone is compressed.
std::string ToString(const Depth& depth);

// What a design can see at one depth. Depths without a crossing are left out.
struct Resolution {
  Depth depth;
  double half_width_q;       // of the 95 % interval; infinity for one seed
  double smallest_effect_q;  // loss per crossing found with 80 % power
};
std::vector<Resolution> Resolve(int seeds, const Noise& noise, std::span<const Depth> depths);

// "n = 5, sigma 0.0030, rho 0.5 (pilot), s 0.30: 95% half-width on q is 0.0062 at S=2, ...; a loss
// of 0.5% per crossing is NOT resolvable at S = 2."
std::string ForecastSentence(int seeds, const Noise& noise, std::span<const Depth> depths);

// True when the 80 % power effect per crossing exceeds 0.5 % at this depth: `measure` asks for
// --accept-unresolved.
bool Unresolved(int seeds, const Noise& noise, const Depth& depth);

}  // namespace longhaul
