#include "pp_group/corpus_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compressors/noise.h"

namespace longhaul {
namespace {

constexpr size_t kHeldOutFraction = 64;
constexpr uint64_t kHeldOutFiles = 32;
constexpr size_t kHeadersLimitBytes = size_t{64} << 20;

// A token file of the GPT trainers: 256 int32, of which the first three say what follows.
constexpr size_t kTokenHeaderBytes = 256 * sizeof(int32_t);
constexpr int32_t kTokenMagic = 20240520;
constexpr int32_t kTokenVersion = 1;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat("corpus ", path, ": no such file"));
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat("corpus ", path, ": cannot be opened"));
  std::string content(static_cast<size_t>(file.tellg()), '\0');
  file.seekg(0);
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) {
    return absl::DataLossError(absl::StrCat("corpus ", path, ": read failed"));
  }
  return content;
}

void Append(const std::string& bytes, std::vector<uint16_t>* tokens) {
  for (char c : bytes) tokens->push_back(static_cast<unsigned char>(c));
}

CorpusTokens SplitAtEnd(std::vector<uint16_t> tokens) {
  const size_t train = tokens.size() - tokens.size() / kHeldOutFraction;
  std::vector<uint16_t> held_out(tokens.begin() + static_cast<ptrdiff_t>(train), tokens.end());
  tokens.resize(train);
  return {std::move(tokens), std::move(held_out)};
}

// Bytes before the first id; 0 for a bare file.
absl::StatusOr<size_t> TokenHeader(const std::string& path, const std::string& content) {
  int32_t header[3];
  if (content.size() < kTokenHeaderBytes) return 0;
  std::memcpy(header, content.data(), sizeof header);
  if (header[0] != kTokenMagic) return 0;
  const size_t count = (content.size() - kTokenHeaderBytes) / sizeof(uint16_t);
  if (header[1] != kTokenVersion || static_cast<size_t>(header[2]) != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus ", path, ": header says version ", header[1], " and ", header[2],
        " tokens; want version ", kTokenVersion, ", and the file holds ", count, " tokens"));
  }
  return kTokenHeaderBytes;
}

}  // namespace

absl::StatusOr<CorpusTokens> ReadText(const std::string& path) {
  absl::StatusOr<std::string> content = ReadFile(path);
  if (!content.ok()) return content.status();
  std::vector<uint16_t> tokens;
  Append(*content, &tokens);
  return SplitAtEnd(std::move(tokens));
}

absl::StatusOr<CorpusTokens> ReadTokens(const std::string& path, int64_t vocab) {
  absl::StatusOr<std::string> content = ReadFile(path);
  if (!content.ok()) return content.status();
  absl::StatusOr<size_t> header = TokenHeader(path, *content);
  if (!header.ok()) return header.status();
  if ((content->size() - *header) % sizeof(uint16_t) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus ", path, ": ", content->size(), " bytes are no whole uint16 ids"));
  }
  std::vector<uint16_t> tokens((content->size() - *header) / sizeof(uint16_t));
  std::memcpy(tokens.data(), content->data() + *header, tokens.size() * sizeof(uint16_t));
  const auto highest = std::max_element(tokens.begin(), tokens.end());
  if (highest != tokens.end() && *highest >= vocab) {
    return absl::InvalidArgumentError(absl::StrCat("corpus ", path, ": id ", *highest, " at token ",
                                                   highest - tokens.begin(), ", but vocab is ",
                                                   vocab));
  }
  return SplitAtEnd(std::move(tokens));
}

absl::StatusOr<CorpusTokens> ReadHeaders(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file() && it->path().extension() == ".h") {
      paths.push_back(it->path().lexically_relative(directory).generic_string());
    }
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("corpus headers:", directory, ": ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  CorpusTokens tokens;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> content = ReadFile(absl::StrCat(directory, "/", path));
    if (!content.ok()) return content.status();
    if (tokens.train.size() + tokens.held_out.size() + content->size() > kHeadersLimitBytes) break;
    Append(*content, IsHeldOut(path) ? &tokens.held_out : &tokens.train);
  }
  return tokens;
}

bool IsHeldOut(const std::string& relative_path) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : relative_path) hash = (hash ^ c) * 0x100000001b3u;
  return SplitMix64(hash) % kHeldOutFiles == 0;
}

}  // namespace longhaul
