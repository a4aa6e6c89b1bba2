#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "pp_group/data/mapped_tokens.h"

namespace longhaul {

// Files of other kinds than their source's word says would be read without an error and trained on.

// `content`: the whole file at `path`, which is to hold ids of `width` (kByte: text). OK, or
// InvalidArgument in one line: what it is by its header (NumPy, Megatron's, GPT trainers', weights,
// archives, tables) or by that of the index beside it, and which word or conversion is right.
absl::Status CheckHeader(const std::string& path, std::span<const std::byte> content,
                         MappedTokens::Width width);
// The same by plain statistics of a sample of `ids`, bytes without a header: text that is to be
// ids, ids of twice the width, what is to be text and is none. OK for less than 64 bytes.
absl::Status CheckStatistics(const std::string& path, std::span<const std::byte> ids,
                             MappedTokens::Width width);

// For the message about an id beyond vocab: "; all are below it as uint32: want tokens32:", or ""
// where no other reading of a sample of `ids` fits.
std::string OtherReading(std::span<const std::byte> ids, MappedTokens::Width width, int64_t vocab);

// A token file of the GPT trainers: 256 int32, of which the first three say what follows.
constexpr size_t kTokenHeaderBytes = 256 * sizeof(int32_t);
struct TokenFormat {
  int32_t magic, version;
};
constexpr TokenFormat kUint16Format = {20240520, 1}, kUint32Format = {20240801, 7};

}  // namespace longhaul
