#include "plugin/core/packet.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/numbers/crc32c.h"
#include "plugin/core/collective_call.h"

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little,
              "fields are copied as they lie in memory");

constexpr uint32_t kMagic = 0x3250484C;  // "LHP2"
constexpr uint16_t kKnownFlags =
    kPacketCancelled | kPacketAborted | kPacketStreamed | kPacketMismatch | kPacketTimedOut;

// Walks the layout once; Put and Get share it so the two directions cannot drift apart.
template <typename Visit>
void VisitFields(Visit&& visit) {
  visit([](auto& h) -> auto& { return h.kind; });
  visit([](auto& h) -> auto& { return h.space; });
  visit([](auto& h) -> auto& { return h.flags; });
  visit([](auto& h) -> auto& { return h.source_node; });
  visit([](auto& h) -> auto& { return h.group; });
  visit([](auto& h) -> auto& { return h.source_rank; });
  visit([](auto& h) -> auto& { return h.tag; });
  visit([](auto& h) -> auto& { return h.sequence; });
  visit([](auto& h) -> auto& { return h.type; });
  visit([](auto& h) -> auto& { return h.rank; });
  visit([](auto& h) -> auto& { return h.codec; });
  visit([](auto& h) -> auto& { return h.payload_bytes; });
  visit([](auto& h) -> auto& { return h.elements; });
  visit([](auto& h) -> auto& { return h.dims; });
  visit([](auto& h) -> auto& { return h.message_bytes; });
  visit([](auto& h) -> auto& { return h.offset; });
  visit([](auto& h) -> auto& { return h.payload_crc; });
}

absl::Status Bad(std::string_view what) {
  return absl::DataLossError(fmt::format("packet: {}", what));
}

absl::Status CheckShape(const PacketHeader& h) {
  if (static_cast<uint8_t>(h.type) > static_cast<uint8_t>(kLastElementType)) {
    return Bad(fmt::format("element type {}", static_cast<int>(h.type)));
  }
  if (h.space == ChannelSpace::kCollective) {
    return ReadCall(h) ? absl::OkStatus() : Bad("no call of a collective");
  }
  if (h.rank > kPacketMaxDims) return Bad(fmt::format("{} dims", h.rank));
  uint64_t product = 1;
  for (size_t i = 0; i < kPacketMaxDims; ++i) {
    if (i >= h.rank) {
      if (h.dims[i] != 0) return Bad("a dim beyond the rank");
    } else if (__builtin_mul_overflow(product, uint64_t{h.dims[i]}, &product)) {
      return Bad("dims overflow");
    }
  }
  if (h.rank > 0 && product != h.elements) {
    return Bad(fmt::format("dims give {} elements, the header says {}", product, h.elements));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const PacketHeader& h) {
  if (h.source_rank < 0) return Bad(fmt::format("source rank {}", h.source_rank));
  RETURN_IF_ERROR(CheckShape(h));
  if (h.cancelled()) {
    const bool whole = h.offset == 0 && h.payload_bytes == h.message_bytes;
    return whole ? absl::OkStatus() : Bad("a cancelled message in parts");
  }
  uint64_t raw_bytes = 0;
  if (__builtin_mul_overflow(h.elements, uint64_t{BytesPerElement(h.type)}, &raw_bytes)) {
    return Bad(fmt::format("{} elements", h.elements));
  }
  if (h.codec == 0 && raw_bytes != h.message_bytes) {
    return Bad(fmt::format("{} in {} bytes", ToString(h), h.message_bytes));
  }
  if (h.codec == 0 && h.streamed()) return Bad("raw values in stream order");
  if (h.codec != 0 && h.type > ElementType::kF16) {
    return Bad(fmt::format("a codec on {}", ToString(h.type)));
  }
  if (h.offset > h.message_bytes || h.payload_bytes > h.message_bytes - h.offset) {
    return Bad(
        fmt::format("bytes {}+{} of a message of {}", h.offset, h.payload_bytes, h.message_bytes));
  }
  if (h.payload_bytes == 0 && h.message_bytes != 0) return Bad("an empty part");
  return absl::OkStatus();
}

absl::Status CheckFields(const PacketHeader& h) {
  const auto kind = static_cast<uint8_t>(h.kind);
  if (kind < static_cast<uint8_t>(PacketKind::kData) ||
      kind > static_cast<uint8_t>(PacketKind::kWaits)) {
    return Bad(fmt::format("kind {}", kind));
  }
  if (static_cast<uint8_t>(h.space) > static_cast<uint8_t>(ChannelSpace::kCollective)) {
    return Bad(fmt::format("space {}", static_cast<int>(h.space)));
  }
  if ((h.flags & ~kKnownFlags) != 0) return Bad(fmt::format("flags {:#x}", h.flags));
  if (h.kind == PacketKind::kData) return CheckData(h);
  if (h.streamed()) return Bad("a control packet in stream order");
  if (h.offset != 0 || h.message_bytes != h.payload_bytes) return Bad("a control packet in parts");
  return absl::OkStatus();
}

}  // namespace

void DescribeTensor(const WireTensor& x, PacketHeader& header) {
  header.type = x.type;
  header.elements = static_cast<uint64_t>(x.elements());
  header.rank = 0;
  header.dims = {};
  if (x.dims.empty() || x.dims.size() > kPacketMaxDims) return;
  for (const int64_t dim : x.dims) {
    if (dim < 0 || dim > int64_t{UINT32_MAX}) return;
  }
  header.rank = static_cast<uint8_t>(x.dims.size());
  for (size_t i = 0; i < x.dims.size(); ++i) header.dims[i] = static_cast<uint32_t>(x.dims[i]);
}

std::string ToString(const PacketHeader& header) {
  if (header.rank == 0) return fmt::format("{} x {}", ToString(header.type), header.elements);
  return fmt::format("{}[{}]", ToString(header.type),
                     fmt::join(header.dims.begin(), header.dims.begin() + header.rank, ","));
}

std::string ToString(const WireTensor& x) {
  return fmt::format("{}[{}]", ToString(x.type), fmt::join(x.dims, ","));
}

void WritePacketHeader(const PacketHeader& header, std::span<std::byte, kPacketHeaderBytes> out) {
  std::memcpy(out.data(), &kMagic, sizeof(kMagic));
  size_t at = sizeof(kMagic);
  VisitFields([&](auto field) {
    std::memcpy(out.data() + at, &field(header), sizeof(field(header)));
    at += sizeof(field(header));
  });
  const uint32_t crc = Crc32c(out.first(at));
  std::memcpy(out.data() + at, &crc, sizeof(crc));
}

absl::StatusOr<PacketHeader> ParsePacket(std::span<const std::byte> bytes,
                                         std::span<const std::byte> payload) {
  if (bytes.size() != kPacketHeaderBytes) {
    return Bad(fmt::format("a header of {} bytes, want {}", bytes.size(), kPacketHeaderBytes));
  }
  uint32_t magic = 0;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  if (magic != kMagic) return Bad(fmt::format("magic {:#010x}", magic));
  PacketHeader header;
  size_t at = sizeof(magic);
  VisitFields([&](auto field) {
    std::memcpy(&field(header), bytes.data() + at, sizeof(field(header)));
    at += sizeof(field(header));
  });
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + at, sizeof(crc));
  if (crc != Crc32c(bytes.first(at))) return Bad("header checksum");
  if (header.payload_bytes != payload.size()) {
    return Bad(
        fmt::format("{} payload bytes, the header says {}", payload.size(), header.payload_bytes));
  }
  RETURN_IF_ERROR(CheckFields(header));
  if (header.kind != PacketKind::kData && header.payload_crc != Crc32c(payload)) {
    return Bad("payload checksum");
  }
  return header;
}

}  // namespace longhaul
