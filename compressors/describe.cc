#include <fmt/format.h>

#include <cstring>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/families/block_codec.h"
#include "compressors/families/selection.h"
#include "compressors/frame/frame.h"

namespace longhaul {
namespace {

constexpr std::string_view kDTypeNames[] = {"f32", "bf16", "fp16"};
constexpr std::string_view kIndexCodings[] = {"none", "fixed", "Rice", "bitmap"};

std::string FlagNames(uint16_t flags) {
  std::string text;
  const auto add = [&](uint16_t flag, std::string_view name) {
    if ((flags & flag) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  };
  add(kFlagStochastic, "stochastic rounding");
  add(kFlagSaturated, "saturated");
  add(kFlagFp16Scales, "fp16 scales");
  add(kFlagErrorFeedback, "error feedback");
  add(kFlagFirstVisit, "first visit");
  add(kFlagDifference, "difference");
  return text.empty() ? "none" : text;
}

std::string Sections(const FrameHeader& h, std::span<const std::byte> frame,
                     std::string_view name) {
  const auto codec = MakeCodec(name);
  if (const auto s = codec.ok() ? SectionsOf(**codec, h.shape) : std::nullopt) {
    return fmt::format("scales      {} bytes\nzeros       {} bytes\ncodes       {} bytes\n",
                       s->scales, s->zeros, s->codes);
  }
  if (h.codec == kTopKId || h.codec == kRandKId) {
    uint64_t index_bytes = 0;
    if (frame.size() < kFrameHeaderBytes + 8) return "";
    std::memcpy(&index_bytes, frame.data() + kFrameHeaderBytes, 8);
    if (index_bytes > frame.size() - kFrameHeaderBytes - 8) return "";
    const uint64_t values_at = kFrameHeaderBytes + 8 + AlignUp8(index_bytes);
    return fmt::format(
        "indices     {} bytes, coding {}, Rice r {}\nvalues      {} bytes, a frame\n", index_bytes,
        kIndexCodings[(h.flags & kFlagIndexMask) >> 8], h.param1,
        frame.size() < values_at ? 0 : frame.size() - values_at);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> DescribeFrame(std::span<const std::byte> frame) {
  ASSIGN_OR_RETURN(const auto name, NameOfFrame(frame));
  const FrameHeader h = *ParseFrame(frame);
  const auto elements = static_cast<double>(h.shape.elements());
  return fmt::format(
             "codec       {} (0x{:02x}), values 0x{:02x}, layout version {}\n"
             "tensor      {} x {}, {}\n"
             "flags       {}\n"
             "block       {}\n"
             "parameters  {}, {}\n"
             "seed        {:#018x}\n"
             "state       {:08x}\n"
             "header      {} bytes\n"
             "payload     {} bytes, {:.4g} bits per element, {:.4g} x against bf16\n",
             name, h.codec, h.value_codec, h.version, h.shape.rows, h.shape.cols,
             kDTypeNames[static_cast<size_t>(h.dtype)], FlagNames(h.flags), h.block, h.param0,
             h.param1, h.seed, h.state, kFrameHeaderBytes, h.payload_bytes,
             8 * static_cast<double>(h.payload_bytes) / elements,
             2 * elements / static_cast<double>(h.payload_bytes)) +
         Sections(h, frame, name);
}

}  // namespace longhaul
