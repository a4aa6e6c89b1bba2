#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/frame/frame.h"
#include "compressors/isa.h"

namespace longhaul {

constexpr uint16_t kPowerSgdId = 0x90;

// `powersgd-r{r}` (arXiv 1905.13727), 1 <= r <= 64: M = x + e is sent as P (orthonormal columns)
// and Q = M^T P, fp32; decodes to P Q^T, and e keeps what that lacks. Q warm-starts the next call,
// so the factors follow M over the rounds. low_rank.h says how a tensor becomes a matrix.
//
// Payload: P, r columns of `rows` f32; Q, r columns of `cols` f32. param0 = r, param1 = cols. A
// tensor that factors would not halve is sent as fp32 with both zero. 32 r (rows + cols) / (rows
// cols) bits per element. State: 4 (n + r cols) bytes; scratch: 8 n bytes and the factors.
std::shared_ptr<const Codec> NewPowerSgdCodec(std::string_view name, uint32_t rank, Isa isa);

// The largest frame of any rank: factors are sent only where they are smaller than the tensor.
inline size_t MaxPowerSgdFrameBytes(Shape shape) {
  return kFrameHeaderBytes + 4 * shape.elements();
}

}  // namespace longhaul
