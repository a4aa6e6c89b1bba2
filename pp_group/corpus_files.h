#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pp_group/mapped_tokens.h"

namespace longhaul {

// The tokens of one source, split. Bytes become ids 0..255.
struct CorpusTokens {
  MappedTokens train, held_out;
};

// What Corpus::Open reads; its errors.
absl::StatusOr<CorpusTokens> ReadText(const std::string& path);
absl::StatusOr<CorpusTokens> ReadTokens(const std::string& path, int64_t vocab);
absl::StatusOr<CorpusTokens> ReadHeaders(const std::string& directory);

// Whether "headers" holds out the file of this relative path: FNV-1a 64 of it, mixed, modulo 32.
bool IsHeldOut(const std::string& relative_path);

}  // namespace longhaul
