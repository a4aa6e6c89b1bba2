#include "plugin/core/greeting.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

uint64_t Word(const std::byte* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Rounds(int n) {
    for (int i = 0; i < n; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
  uint64_t Sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

std::array<std::byte, 16> Proof(const NodeKey& key, uint64_t greeted, std::string_view address) {
  std::string text(reinterpret_cast<const char*>(&greeted), sizeof(greeted));
  text += address;
  return SipHash128(key, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

std::array<std::byte, 16> SipHash128(const NodeKey& key, std::span<const std::byte> bytes) {
  const uint64_t k0 = Word(key.data()), k1 = Word(key.data() + 8);
  SipState state{.v0 = k0 ^ 0x736f6d6570736575,
                 .v1 = k1 ^ 0x646f72616e646f6d ^ 0xee,
                 .v2 = k0 ^ 0x6c7967656e657261,
                 .v3 = k1 ^ 0x7465646279746573};
  const size_t whole = bytes.size() / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) state.Take(Word(bytes.data() + at));
  std::array<std::byte, 8> last = {};
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(), last.begin());
  last[7] = std::byte(bytes.size());
  state.Take(Word(last.data()));
  std::array<std::byte, 16> hash;
  state.v2 ^= 0xee;
  state.Rounds(4);
  uint64_t half = state.Sum();
  std::memcpy(hash.data(), &half, sizeof(half));
  state.v1 ^= 0xdd;
  state.Rounds(4);
  half = state.Sum();
  std::memcpy(hash.data() + 8, &half, sizeof(half));
  return hash;
}

std::string MakeGreeting(NodeAddress own, uint64_t greeted, const NodeKey& key,
                         size_t padded_bytes) {
  own.key = {};
  const absl::StatusOr<std::string> address = SerializeAddress(own);
  if (!address.ok()) return "";  // its size was checked when the node was made
  const auto length = static_cast<uint32_t>(address->size());
  std::string payload(reinterpret_cast<const char*>(&length), sizeof(length));
  payload += *address;
  const std::array<std::byte, 16> proof = Proof(key, greeted, *address);
  payload.append(reinterpret_cast<const char*>(proof.data()), proof.size());
  payload.resize(std::max(payload.size(), padded_bytes));
  return payload;
}

absl::StatusOr<Greeting> ParseGreeting(std::span<const std::byte> payload) {
  uint32_t length = 0;
  Greeting greeting;
  const size_t beside = sizeof(length) + greeting.proof.size();
  if (payload.size() < beside || payload.size() > kMaxGreetingBytes) {
    return absl::InvalidArgumentError(fmt::format("a greeting of {} bytes", payload.size()));
  }
  std::memcpy(&length, payload.data(), sizeof(length));
  if (length > payload.size() - beside) {
    return absl::InvalidArgumentError(
        fmt::format("a greeting of {} bytes, {} of them its address", payload.size(), length));
  }
  greeting.signed_address.assign(reinterpret_cast<const char*>(payload.data()) + sizeof(length),
                                 length);
  std::memcpy(greeting.proof.data(), payload.data() + sizeof(length) + length,
              greeting.proof.size());
  ASSIGN_OR_RETURN(NodeAddress address, ParseAddress(greeting.signed_address));
  greeting.address = std::move(address);
  greeting.address.key = {};  // nobody's but the greeter's to say, and only in the store
  return greeting;
}

bool Proves(const Greeting& greeting, uint64_t greeted, const NodeKey& key) {
  const std::array<std::byte, 16> wanted = Proof(key, greeted, greeting.signed_address);
  std::byte differ{0};
  for (size_t i = 0; i < wanted.size(); ++i) differ |= wanted[i] ^ greeting.proof[i];
  return differ == std::byte{0};
}

}  // namespace longhaul
