#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace longhaul {

// 64 bits over the bytes of `x` (contiguous), for "do these two runs hold the same parameters": not
// cryptographic. The sum modulo 2^64 of one mix for each 8 bytes and their place, so that the order
// of adding is free; equal on every host and device. On a device `x` is f32, stays there, and 8 bytes
// come back.
uint64_t HashOf(const at::Tensor& x);

// What HashOf does off the host, in ATen calls; apart for a test.
uint64_t HashByAten(const at::Tensor& x);

}  // namespace longhaul
