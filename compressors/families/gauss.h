#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/frame/frame.h"
#include "compressors/isa.h"

namespace longhaul {

constexpr uint16_t kGaussId = 0xb0;
constexpr float kLeastGaussNmse = 1e-9f, kMostGaussNmse = 1.0f;

// A number from kLeastGaussNmse to kMostGaussNmse, in any of TOML's ways to write it.
std::optional<float> ParseGaussNmse(std::string_view text);

// The one name of the codec of that error: "gauss-0.01", "gauss-3.55e-05".
std::string GaussName(float nmse);

// `gauss-{NMSE}`: a control for experiments, not a compressor. Sends fp32, 32 bits per element,
// and adds noise to it: xhat_i = x_i + sqrt(NMSE mean(x^2)) z_i, clamped to the largest finite
// number, z normal by Box and Muller on the words 2 (i/2) and 2 (i/2) + 1 of the frame's seed
// (purpose 5), |z| < 5.8. So ||xhat - x||^2 / ||x||^2 is NMSE to sqrt(2/n), with no bias and no
// structure. No libm but its exact square root: all machines have the same bits.
//
// Payload: xhat, fp32. param0: the bits of NMSE as fp32; flag "stochastic", seed that of z.
std::shared_ptr<const Codec> NewGaussCodec(std::string_view name, float nmse, Isa isa);

}  // namespace longhaul
