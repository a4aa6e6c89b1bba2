#include "compressors/frame/payload_sum.h"

namespace longhaul {

uint32_t PayloadCrc(std::span<const std::byte> frame, std::span<const SummedPart> parts) {
  size_t at = kFrameHeaderBytes;
  uint32_t crc = 0;
  for (const SummedPart& part : parts) {
    if (part.begin == part.end) continue;
    crc = Crc32cAlone(frame.subspan(at, part.begin - at), crc);
    crc = Crc32cCombine(crc, part.crc, part.end - part.begin);
    at = part.end;
  }
  return Crc32cAlone(frame.subspan(at), crc);
}

}  // namespace longhaul
