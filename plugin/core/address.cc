#include "plugin/core/address.h"

#include <cstring>
#include <span>

#include <fmt/format.h>

#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

constexpr uint32_t kMagic = 0x3341484C;  // "LHA3"

// magic, transport, node id, generation, network id, credit, deadline in ns, key, blob length, blob,
// CRC
constexpr size_t kFixedBytes = 4 + 1 + 8 + 4 + 8 + 8 + 8 + 16 + 4;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Take(std::string_view& in) {
  T value;
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return value;
}

uint32_t Checksum(std::string_view text) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

absl::StatusOr<std::string> SerializeAddress(const NodeAddress& address) {
  std::string out;
  Put(out, kMagic);
  Put(out, static_cast<uint8_t>(address.transport));
  Put(out, address.node_id);
  Put(out, address.generation);
  Put(out, address.network_id);
  Put(out, address.credit_bytes);
  Put(out, absl::ToInt64Nanoseconds(address.deadline));
  Put(out, address.key);
  Put(out, static_cast<uint32_t>(address.blob.size()));
  out += address.blob;
  Put(out, Checksum(out));
  if (out.size() > kMaxAddressBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("node address of {} bytes, at most {}", out.size(), kMaxAddressBytes));
  }
  return out;
}

absl::StatusOr<NodeAddress> ParseAddress(std::string_view bytes) {
  const auto bad = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("not a node address: {} ({} bytes)", what, bytes.size()));
  };
  if (bytes.size() < kFixedBytes + sizeof(uint32_t)) return bad("too short");
  std::string_view in = bytes;
  if (Take<uint32_t>(in) != kMagic) return bad("magic");
  NodeAddress address;
  const auto transport = Take<uint8_t>(in);
  if (transport > static_cast<uint8_t>(TransportKind::kUcx)) return bad("transport");
  address.transport = static_cast<TransportKind>(transport);
  address.node_id = Take<uint64_t>(in);
  address.generation = Take<uint32_t>(in);
  address.network_id = Take<uint64_t>(in);
  address.credit_bytes = Take<int64_t>(in);
  address.deadline = absl::Nanoseconds(Take<int64_t>(in));
  address.key = Take<NodeKey>(in);
  const auto blob_bytes = Take<uint32_t>(in);
  if (in.size() != blob_bytes + sizeof(uint32_t)) return bad("length");
  address.blob = std::string(in.substr(0, blob_bytes));
  in.remove_prefix(blob_bytes);
  if (Take<uint32_t>(in) != Checksum(bytes.substr(0, bytes.size() - sizeof(uint32_t)))) {
    return bad("checksum");
  }
  if (address.credit_bytes < kMinCreditBytes || address.deadline <= absl::ZeroDuration()) {
    return bad("credit or deadline");
  }
  return address;
}

}  // namespace longhaul
