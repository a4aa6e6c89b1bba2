#include "pp_group/corpus_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr size_t kHeldOutFraction = 64;
constexpr uint64_t kHeldOutFiles = 32;
constexpr int64_t kHeadersLimitBytes = int64_t{64} << 20;

// A token file of the GPT trainers: 256 int32, of which the first three say what follows.
constexpr size_t kTokenHeaderBytes = 256 * sizeof(int32_t);
constexpr int32_t kTokenMagic = 20240520;
constexpr int32_t kTokenVersion = 1;

using FilePtr = std::shared_ptr<const MappedFile>;
using Width = MappedTokens::Width;

// The ids from byte `begin` of the file on: most to train on, the last to hold out.
CorpusTokens SplitAtEnd(const FilePtr& file, size_t begin, Width width) {
  const size_t bytes = static_cast<size_t>(width);
  const size_t count = (file->bytes().size() - begin) / bytes;
  const size_t train = count - count / kHeldOutFraction;
  CorpusTokens tokens;
  tokens.train.Append(file, begin, static_cast<int64_t>(train), width);
  tokens.held_out.Append(file, begin + train * bytes, static_cast<int64_t>(count - train), width);
  return tokens;
}

absl::Status CheckIds(const std::string& path, const CorpusTokens& tokens, int64_t vocab) {
  int64_t first = 0;
  absl::Status status;
  const auto check = [&](std::span<const uint16_t> ids) {
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [vocab](uint16_t id) { return id >= vocab; });
    if (bad != ids.end() && status.ok()) {
      status = absl::InvalidArgumentError(absl::StrCat("corpus ", path, ": id ", *bad, " at token ",
                                                       first + (bad - ids.begin()),
                                                       ", but vocab is ", vocab));
    }
    first += static_cast<int64_t>(ids.size());
  };
  tokens.train.Visit(check);
  tokens.held_out.Visit(check);
  return status;
}

// Bytes before the first id; 0 for a bare file.
absl::StatusOr<size_t> TokenHeader(const std::string& path, std::span<const std::byte> content) {
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
  const absl::StatusOr<FilePtr> file = MappedFile::Open("corpus", path);
  if (!file.ok()) return file.status();
  return SplitAtEnd(*file, /*begin=*/0, Width::kByte);
}

absl::StatusOr<CorpusTokens> ReadTokens(const std::string& path, int64_t vocab) {
  const absl::StatusOr<FilePtr> file = MappedFile::Open("corpus", path);
  if (!file.ok()) return file.status();
  const std::span<const std::byte> content = (*file)->bytes();
  const absl::StatusOr<size_t> header = TokenHeader(path, content);
  if (!header.ok()) return header.status();
  if ((content.size() - *header) % sizeof(uint16_t) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus ", path, ": ", content.size(), " bytes are no whole uint16 ids"));
  }
  CorpusTokens tokens = SplitAtEnd(*file, *header, Width::kUint16);
  if (absl::Status status = CheckIds(path, tokens, vocab); !status.ok()) return status;
  return tokens;
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
    absl::StatusOr<FilePtr> file = MappedFile::Open("corpus", absl::StrCat(directory, "/", path));
    if (!file.ok()) return file.status();
    const auto bytes = static_cast<int64_t>((*file)->bytes().size());
    if (tokens.train.size() + tokens.held_out.size() + bytes > kHeadersLimitBytes) break;
    (IsHeldOut(path) ? tokens.held_out : tokens.train)
        .Append(*std::move(file), /*begin=*/0, bytes, Width::kByte);
  }
  return tokens;
}

bool IsHeldOut(const std::string& relative_path) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : relative_path) hash = (hash ^ c) * 0x100000001b3u;
  return SplitMix64(hash) % kHeldOutFiles == 0;
}

}  // namespace longhaul
