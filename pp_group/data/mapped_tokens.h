#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pp_group/data/mapped_file.h"

namespace longhaul {

// Token ids that lie in pieces of mapped files, one piece after the other.
class MappedTokens {
 public:
  enum class Width : uint8_t { kByte = 1, kUint16 = 2, kUint32 = 4 };  // little-endian

  // `count` ids from byte `begin` of `file` on; there are that many.
  void Append(std::shared_ptr<const MappedFile> file, size_t begin, int64_t count, Width width);

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  // ids: those from `first` on; first + ids.size() <= size().
  void Copy(int64_t first, std::span<int64_t> ids) const;

  // All ids, some thousands at a time; the memory of what has been visited is released.
  void Visit(const std::function<void(std::span<const uint32_t>)>& visit) const;
  // SHA-256 of the ids, hex: as little-endian uint16, or as uint32 where a piece has those.
  std::string Hash() const;

 private:
  struct Piece {
    std::shared_ptr<const MappedFile> file;
    const std::byte* ids;
    Width width;
    int64_t begin, end;  // of the whole
  };
  static uint32_t Id(const Piece& piece, int64_t at);

  std::vector<Piece> pieces_;
};

}  // namespace longhaul
