#include "pp_group/data/corpus_files.h"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "compressors/numbers/noise.h"
#include "pp_group/data/corpus_format.h"

namespace longhaul {
namespace {

constexpr int64_t kHeldOutFraction = 64;
constexpr uint64_t kHeldOutFiles = 32;
constexpr int64_t kHeadersLimitBytes = int64_t{64} << 20;

using FilePtr = std::shared_ptr<const MappedFile>;
using Width = MappedTokens::Width;

// Ids in one file, which come after those of the pieces before it.
struct Piece {
  std::string path;
  FilePtr file;
  size_t begin;  // bytes
  int64_t count;
};

// Each file of a list with commas between its entries, in its order, the matches of a pattern in
// that of their names.
absl::StatusOr<std::vector<std::string>> Paths(const std::string& list) {
  std::vector<std::string> paths;
  const std::vector<std::string> entries = absl::StrSplit(list, ',');
  for (const std::string& entry : entries) {
    if (entry.find_first_of("*?[") == std::string::npos) {
      paths.push_back(entry);
      continue;
    }
    glob_t found{};
    const int status = glob(entry.c_str(), 0, nullptr, &found);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) paths.push_back(found.gl_pathv[i]);
    globfree(&found);
    if (status != 0) {
      return absl::NotFoundError(absl::StrCat("corpus ", entry, ": no file matches"));
    }
  }
  return paths;
}

// Most of the pieces' ids to train on, the last to hold out; or all of them to train on.
CorpusTokens Split(const std::vector<Piece>& pieces, Width width, Part part) {
  int64_t total = 0;
  for (const Piece& piece : pieces) total += piece.count;
  const int64_t train = part == Part::kSplit ? total - total / kHeldOutFraction : total;
  CorpusTokens tokens;
  int64_t before = 0;
  for (const Piece& piece : pieces) {
    const int64_t own = std::clamp<int64_t>(train - before, 0, piece.count);
    tokens.train.Append(piece.file, piece.begin, own, width);
    tokens.held_out.Append(piece.file,
                           piece.begin + static_cast<size_t>(own) * static_cast<size_t>(width),
                           piece.count - own, width);
    before += piece.count;
  }
  return tokens;
}

absl::Status CheckIds(const Piece& piece, Width width, int64_t vocab) {
  MappedTokens tokens;
  tokens.Append(piece.file, piece.begin, piece.count, width);
  int64_t first = 0;
  absl::Status status;
  tokens.Visit([&](std::span<const uint32_t> ids) {
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [vocab](uint32_t id) { return id >= vocab; });
    if (bad != ids.end() && status.ok()) {
      status = absl::InvalidArgumentError(
          absl::StrCat("corpus ", piece.path, ": id ", *bad, " at token ",
                       first + (bad - ids.begin()), ", but vocab is ", vocab,
                       OtherReading(piece.file->bytes().subspan(piece.begin), width, vocab)));
    }
    first += static_cast<int64_t>(ids.size());
  });
  return status;
}

// Bytes before the first id; 0 for a bare file.
absl::StatusOr<size_t> TokenHeader(const std::string& path, std::span<const std::byte> content,
                                   Width width) {
  const TokenFormat format = width == Width::kUint16 ? kUint16Format : kUint32Format;
  int32_t header[3];
  if (content.size() < kTokenHeaderBytes) return 0;
  std::memcpy(header, content.data(), sizeof header);
  if (header[0] != format.magic) return 0;
  const size_t count = (content.size() - kTokenHeaderBytes) / static_cast<size_t>(width);
  if (header[1] != format.version || static_cast<size_t>(header[2]) != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus ", path, ": header says version ", header[1], " and ", header[2],
        " tokens; want version ", format.version, ", and the file holds ", count, " tokens"));
  }
  return kTokenHeaderBytes;
}

absl::StatusOr<Piece> OpenTokens(const std::string& path, Width width, int64_t vocab) {
  ASSIGN_OR_RETURN(const FilePtr file, MappedFile::Open("corpus", path));
  const std::span<const std::byte> content = file->bytes();
  RETURN_IF_ERROR(CheckHeader(path, content, width));
  ASSIGN_OR_RETURN(const size_t header, TokenHeader(path, content, width));
  const size_t bytes = static_cast<size_t>(width);
  if ((content.size() - header) % bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("corpus ", path, ": ", content.size(),
                                                   " bytes are no whole uint", 8 * bytes, " ids"));
  }
  Piece piece{path, file, header, static_cast<int64_t>((content.size() - header) / bytes)};
  RETURN_IF_ERROR(CheckStatistics(path, content.subspan(header), width));
  RETURN_IF_ERROR(CheckIds(piece, width, vocab));
  return piece;
}

// Relative paths of the headers below a folder, sorted.
absl::StatusOr<std::vector<std::string>> HeadersBelow(const std::string& directory) {
  namespace fs = std::filesystem;
  const size_t below = directory.size() + (directory.ends_with('/') ? 0 : 1);
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file() && it->path().extension() == ".h") {
      paths.push_back(it->path().string().substr(below));
    }
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("corpus headers:", directory, ": ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

absl::StatusOr<CorpusTokens> ReadText(const std::string& paths, Part part) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, Paths(paths));
  std::vector<Piece> pieces;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(FilePtr file, MappedFile::Open("corpus", path));
    const std::span<const std::byte> content = file->bytes();
    absl::Status status = CheckHeader(path, content, Width::kByte);
    if (status.ok()) status = CheckStatistics(path, content, Width::kByte);
    if (!status.ok()) return status;
    const auto bytes = static_cast<int64_t>(content.size());
    pieces.push_back({path, std::move(file), /*begin=*/0, bytes});
  }
  return Split(pieces, Width::kByte, part);
}

absl::StatusOr<CorpusTokens> ReadTokens(const std::string& paths, Width width, int64_t vocab,
                                        Part part) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, Paths(paths));
  std::vector<Piece> pieces;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(Piece piece, OpenTokens(path, width, vocab));
    pieces.push_back(std::move(piece));
  }
  return Split(pieces, width, part);
}

absl::StatusOr<CorpusTokens> ReadHeaders(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, HeadersBelow(directory));
  CorpusTokens tokens;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(FilePtr file, MappedFile::Open("corpus", absl::StrCat(directory, "/", path)));
    const auto bytes = static_cast<int64_t>(file->bytes().size());
    if (tokens.train.size() + tokens.held_out.size() + bytes > kHeadersLimitBytes) break;
    (IsHeldOut(path) ? tokens.held_out : tokens.train)
        .Append(std::move(file), /*begin=*/0, bytes, Width::kByte);
  }
  return tokens;
}

absl::StatusOr<std::vector<std::string>> CorpusFiles(const std::string& source) {
  const size_t colon = source.find(':');
  const std::string kind = source.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : source.substr(colon + 1);
  if (kind == "text" || kind == "tokens" || kind == "tokens32") return Paths(path);
  if (kind != "headers") {
    return absl::InvalidArgumentError(absl::StrCat("corpus '", source, "': of no known kind"));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> below, HeadersBelow(path));
  for (std::string& file : below) file = absl::StrCat(path, "/", file);
  return below;
}

bool IsHeldOut(const std::string& relative_path) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : relative_path) hash = (hash ^ c) * 0x100000001b3u;
  return SplitMix64(hash) % kHeldOutFiles == 0;
}

}  // namespace longhaul
