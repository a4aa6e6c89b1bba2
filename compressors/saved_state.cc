#include "compressors/saved_state.h"

#include <fmt/format.h>

#include <cstring>

#include "base/status_macros.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

constexpr uint32_t kMagic = 0x3153484C;  // "LHS1"

struct Header {
  uint32_t magic = kMagic;
  uint32_t name_bytes = 0;
  Shape shape;
  uint64_t state_bytes = 0;
};
static_assert(sizeof(Header) == 32);
constexpr size_t kCrcBytes = sizeof(uint32_t);

// Whether a state of that many bytes may be one of that shape: asked before memory is taken for
// it. The smallest states hold two bytes for each element.
bool MayHold(Shape shape, uint64_t state_bytes) {
  uint64_t elements = 0;
  if (__builtin_mul_overflow(shape.rows, shape.cols, &elements)) return false;
  return elements <= state_bytes / 2;
}

}  // namespace

std::vector<std::byte> SaveState(const Codec& codec, const CodecState& state) {
  const std::string name(codec.name());
  const Header header = {.name_bytes = static_cast<uint32_t>(name.size()),
                         .shape = state.shape(),
                         .state_bytes = state.bytes()};
  const size_t body = sizeof header + name.size() + state.bytes();
  std::vector<std::byte> saved(body + kCrcBytes);
  std::memcpy(saved.data(), &header, sizeof header);
  std::memcpy(saved.data() + sizeof header, name.data(), name.size());
  state.Save(std::span(saved).subspan(sizeof header + name.size(), state.bytes()));
  const uint32_t crc = Crc32c(std::span(saved).first(body));
  std::memcpy(saved.data() + body, &crc, kCrcBytes);
  return saved;
}

absl::StatusOr<SavedState> ParseSavedState(std::span<const std::byte> saved) {
  const auto bad = [&](std::string_view why) {
    return absl::DataLossError(fmt::format("saved codec state of {} bytes: {}", saved.size(), why));
  };
  if (saved.size() < sizeof(Header) + kCrcBytes) return bad("truncated");
  Header header;
  std::memcpy(&header, saved.data(), sizeof header);
  if (header.magic != kMagic) return bad("not a saved state");
  const size_t body = saved.size() - sizeof header - kCrcBytes;
  if (header.name_bytes > body || header.state_bytes != body - header.name_bytes) {
    return bad(fmt::format("truncated or too long, its header says {} of name and {} of state",
                           header.name_bytes, header.state_bytes));
  }
  uint32_t crc = 0;
  std::memcpy(&crc, saved.data() + saved.size() - kCrcBytes, kCrcBytes);
  if (Crc32c(saved.first(saved.size() - kCrcBytes)) != crc) return bad("corrupt (checksum)");
  const auto* name = reinterpret_cast<const char*>(saved.data()) + sizeof header;
  return SavedState{.codec = std::string(name, header.name_bytes),
                    .shape = header.shape,
                    .state = saved.subspan(sizeof header + header.name_bytes, header.state_bytes)};
}

absl::StatusOr<std::unique_ptr<CodecState>> RestoreState(const Codec& codec,
                                                         const SavedState& saved) {
  if (saved.codec != codec.name()) {
    return absl::InvalidArgumentError(
        fmt::format("saved state of codec {}, want one of {}", saved.codec, codec.name()));
  }
  if (codec.NewState({1, 1}) == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{} keeps no state", codec.name()));
  }
  if (!MayHold(saved.shape, saved.state.size())) {
    return absl::DataLossError(fmt::format("{}: saved state of {} bytes for shape {}", codec.name(),
                                           saved.state.size(), ToString(saved.shape)));
  }
  std::unique_ptr<CodecState> state = codec.NewState(saved.shape);
  RETURN_IF_ERROR(state->Load(saved.state));
  return state;
}

}  // namespace longhaul
