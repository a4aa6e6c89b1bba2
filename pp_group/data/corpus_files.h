#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/data/mapped_tokens.h"

namespace longhaul {

// The tokens of one source, split. Bytes become ids 0..255.
struct CorpusTokens {
  MappedTokens train, held_out;
};

enum class Part {
  kSplit,  // the last 1/64 is held out
  kWhole,  // all of it is in `train`
};

// What Corpus::Open reads; its errors. `paths`: with commas between them, each a file or a pattern.
absl::StatusOr<CorpusTokens> ReadText(const std::string& paths, Part part);
absl::StatusOr<CorpusTokens> ReadTokens(const std::string& paths, MappedTokens::Width width,
                                        int64_t vocab, Part part);
absl::StatusOr<CorpusTokens> ReadHeaders(const std::string& directory);

// The files that Corpus::Open reads of `source`, in the order of their tokens; of "headers" all,
// also those beyond 64 MiB. NotFound: a pattern
// without a match, no such folder; InvalidArgument: an unknown kind.
absl::StatusOr<std::vector<std::string>> CorpusFiles(const std::string& source);

// Whether "headers" holds out the file of this relative path: FNV-1a 64 of it, mixed, modulo 32.
bool IsHeldOut(const std::string& relative_path);

}  // namespace longhaul
