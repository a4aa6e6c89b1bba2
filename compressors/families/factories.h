#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

// What the catalogue alone makes: one function a codec. Layout, bits, error and source of each
// stand at the top of the file that defines it; families that others ask about have headers.
namespace longhaul {

// aqsgd.cc: `aqsgd2`, `aqsgd4`, `aqsgd8`.
template <int kBits>
std::shared_ptr<const Codec> NewAqSgdCodec(std::string_view name, uint16_t id, Isa isa);
// demo.cc: `demo-dct`.
std::shared_ptr<const Codec> NewDemoCodec(std::string_view name, uint16_t id, Isa isa);
// diloco_x.cc: `diloco-x`.
std::shared_ptr<const Codec> NewDilocoXCodec(std::string_view name, uint16_t id, Isa isa);
// dynamic_map.cc: `dyn8-b4096`.
std::shared_ptr<const Codec> NewDynamicMapCodec(std::string_view name, uint16_t id, Isa isa);
// gact.cc: `gact4-g256`.
std::shared_ptr<const Codec> NewGactCodec(std::string_view name, uint16_t id, Isa isa);
// ggml_block.cc: `q8_0`, `q4_0`.
std::shared_ptr<const Codec> NewQ8Codec(std::string_view name, uint16_t id, Isa isa);
std::shared_ptr<const Codec> NewQ4Codec(std::string_view name, uint16_t id, Isa isa);
// fp4.cc: `nvfp4`; the other FP4 codecs are blocks (block_codec.h).
std::shared_ptr<const Codec> NewNvFp4Codec(std::string_view name, uint16_t id, Isa isa);
// powersgd.cc: `powersgd-r{rank}`, 1 <= rank <= 64.
constexpr uint16_t kPowerSgdId = 0x90;
std::shared_ptr<const Codec> NewPowerSgdCodec(std::string_view name, uint32_t rank, Isa isa);
// qsgd.cc: `qsgd4`, `qsgd8`.
template <int kBits>
std::shared_ptr<const Codec> NewQsgdCodec(std::string_view name, uint16_t id, Isa isa);
// sign.cc: `sign1`.
std::shared_ptr<const Codec> NewSignCodec(std::string_view name, uint16_t id, Isa isa);
// statistical.cc: `stat2`, `stat4`, `stat8`.
template <int kBits>
std::shared_ptr<const Codec> NewStatCodec(std::string_view name, uint16_t id, Isa isa);
// tah.cc: `tah4-g64`, `tah4-g32`.
template <int kTile>
std::shared_ptr<const Codec> NewTahCodec(std::string_view name, uint16_t id, Isa isa);

// tensor_minmax.cc: `minmax2-tensor`, `minmax3-tensor`, `minmax4-tensor`.
template <int kBits>
std::shared_ptr<const Codec> NewTensorMinMaxCodec(std::string_view name, uint16_t id, Isa isa);

// Around a codec without a state, which keeps its wire. wrappers/ef21.cc: `NAME+ef21`; its last
// number is nothing.
std::shared_ptr<const Codec> NewEf21Codec(std::shared_ptr<const Codec> inner, std::string_view name,
                                          float, Isa isa);
// wrappers/error_feedback.cc: `NAME+ef`, decay 1, and `NAME+ef95`.
std::shared_ptr<const Codec> NewErrorFeedbackCodec(std::shared_ptr<const Codec> inner,
                                                   std::string_view name, float decay, Isa isa);
// wrappers/momentum_correction.cc: `NAME+mc`.
std::shared_ptr<const Codec> NewMomentumCorrectionCodec(std::shared_ptr<const Codec> inner,
                                                        std::string_view name, float momentum,
                                                        Isa isa);

}  // namespace longhaul
