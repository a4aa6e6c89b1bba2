#include "pp_group/data/mapped_tokens.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "compressors/numbers/sha256.h"

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are read as they lie");

constexpr int64_t kVisited = 4096;  // ids at a time

}  // namespace

void MappedTokens::Append(std::shared_ptr<const MappedFile> file, size_t begin, int64_t count,
                          Width width) {
  if (count == 0) return;
  const std::byte* ids = file->bytes().data() + begin;
  pieces_.push_back({std::move(file), ids, width, size(), size() + count});
}

uint32_t MappedTokens::Id(const Piece& piece, int64_t at) {
  const int64_t index = at - piece.begin;
  if (piece.width == Width::kByte) return static_cast<uint8_t>(piece.ids[index]);
  uint32_t id = 0;
  const auto bytes = static_cast<size_t>(piece.width);
  std::memcpy(&id, piece.ids + static_cast<int64_t>(bytes) * index, bytes);
  return id;
}

void MappedTokens::Copy(int64_t first, std::span<int64_t> ids) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](int64_t at, const Piece& p) { return at < p.end; });
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t at = first + static_cast<int64_t>(i);
    if (at == piece->end) ++piece;
    ids[i] = Id(*piece, at);
  }
}

void MappedTokens::Visit(const std::function<void(std::span<const uint32_t>)>& visit) const {
  std::vector<uint32_t> ids;
  for (const Piece& piece : pieces_) {
    for (int64_t at = piece.begin; at < piece.end; at += kVisited) {
      ids.resize(static_cast<size_t>(std::min(kVisited, piece.end - at)));
      if (piece.width == Width::kByte) {  // most texts: a loop without a branch
        const auto* bytes = reinterpret_cast<const uint8_t*>(piece.ids + (at - piece.begin));
        std::copy_n(bytes, ids.size(), ids.begin());
      } else {
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = Id(piece, at + static_cast<int64_t>(i));
      }
      visit(ids);
    }
    piece.file->Release();
  }
}

std::string MappedTokens::Hash() const {
  const bool wide = std::any_of(pieces_.begin(), pieces_.end(),
                                [](const Piece& p) { return p.width == Width::kUint32; });
  Sha256 hash;
  std::vector<uint16_t> narrow;
  Visit([&](std::span<const uint32_t> ids) {
    if (wide) {
      hash.Add(std::as_bytes(ids));
      return;
    }
    narrow.assign(ids.begin(), ids.end());
    hash.Add(std::as_bytes(std::span(narrow)));
  });
  return hash.Hex();
}

}  // namespace longhaul
