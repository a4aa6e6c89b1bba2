// libFuzzer target: whatever bytes come, the parsers answer with a packet that is possible or with
// an error. The checksum is repaired first, or nothing would get past it.
#include <cstdlib>
#include <cstring>

#include "compressors/numbers/crc32c.h"
#include "plugin/core/address.h"
#include "plugin/core/greeting.h"
#include "plugin/core/packet.h"

namespace {

void CheckPacket(std::span<const std::byte> input) {
  using namespace longhaul;
  if (input.size() < kPacketHeaderBytes) return;
  std::array<std::byte, kPacketHeaderBytes> header;
  std::memcpy(header.data(), input.data(), header.size());
  std::memcpy(header.data(), "LHP2", 4);
  const uint32_t crc = Crc32c(std::span(header).first(kPacketHeaderBytes - 4));
  std::memcpy(header.data() + kPacketHeaderBytes - 4, &crc, sizeof(crc));
  const absl::StatusOr<PacketHeader> packet =
      ParsePacket(header, input.subspan(kPacketHeaderBytes));
  if (!packet.ok() || packet->kind != PacketKind::kData || packet->cancelled()) return;
  // What receivers rely on without checking again.
  if (packet->offset + packet->payload_bytes > packet->message_bytes) std::abort();
  if (packet->codec == 0 &&
      packet->elements * BytesPerElement(packet->type) != packet->message_bytes) {
    std::abort();
  }
  std::array<std::byte, kPacketHeaderBytes> again;
  WritePacketHeader(*packet, again);
  if (again != header) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  CheckPacket(std::as_bytes(std::span(bytes, size)));
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  if (const auto address = longhaul::ParseAddress(text); address.ok()) {
    if (longhaul::SerializeAddress(*address).value() != text) std::abort();
  }
  const auto greeting = longhaul::ParseGreeting(std::as_bytes(std::span(bytes, size)));
  if (greeting.ok()) {
    if (greeting->signed_address.size() + 20 > size) std::abort();
    if (greeting->address.key != longhaul::NodeKey{}) std::abort();
    if (longhaul::Proves(*greeting, 1, {})) std::abort();  // the input knows no key
  }
  return 0;
}
