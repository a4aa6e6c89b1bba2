#include "pp_group/data/corpus_format.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace longhaul {
namespace {

using Width = MappedTokens::Width;
using Bytes = std::span<const std::byte>;

constexpr std::string_view kMegatronIndex("MMIDIDX\0\0", 9);  // then a version, u64, and the dtype
constexpr size_t kMegatronDtypeAt = 17;

struct Kind {
  std::string_view magic;
  const char *what, *remedy;
};
constexpr char kDecompress[] = "decompress it first";
constexpr char kWriteIds[] =
    "write its ids bare, as little-endian uint16 for tokens: or uint32 for tokens32:";
constexpr char kImportIds[] =
    "`longhaul import ids FILE --out FILE.bin` makes a token file of its ids (docs/import.md)";
constexpr Kind kKinds[] = {
    {std::string_view("\x1f\x8b\x08", 3), "compressed (gzip)", kDecompress},
    {"\x28\xb5\x2f\xfd", "compressed (zstd)", kDecompress},
    {std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     "compressed (xz)", kDecompress},
    {"BZh91AY&SY", "compressed (bzip2)", kDecompress},
    {"PK\x03\x04", "an archive (zip, as .npz and torch.save write)", kWriteIds},
    {"PAR1", "a Parquet table", kImportIds},
    {"ARROW1", "an Arrow table", kImportIds},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file", kWriteIds},
    {"SQLite format 3", "an SQLite database", kWriteIds},
    {"GGUF", "a file of weights (GGUF)", "name a file of text or of token ids"},
    {"version https://git-lfs.github.com/", "a pointer of Git LFS, not the file itself",
     "fetch it: git lfs pull"},
};

std::string_view View(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status Is(const std::string& path, const std::string& what, const std::string& remedy) {
  return absl::InvalidArgumentError(absl::StrCat("corpus ", path, ": is ", what, ": ", remedy));
}

const char* Word(Width width) {
  if (width == Width::kByte) return "text:";
  return width == Width::kUint16 ? "tokens:" : "tokens32:";
}

// "'<u2'" of "{'descr': '<u2', ...": what NumPy calls the type.
std::string NumpyType(std::string_view content) {
  const size_t key = content.substr(0, 256).find("'descr': '");
  if (key == std::string_view::npos) return "";
  const std::string_view rest = content.substr(key + 10);
  return std::string(rest.substr(0, std::min<size_t>(rest.find('\''), 8)));
}

absl::Status CheckNumpy(const std::string& path, std::string_view content) {
  if (!content.starts_with("\x93NUMPY")) return absl::OkStatus();
  const std::string type = NumpyType(content);
  return Is(path, absl::StrCat("a NumPy array (.npy", type.empty() ? "" : " of ", type, ")"),
            kImportIds);
}

// {"name":..., behind the length of that header.
bool IsSafetensors(std::string_view content) {
  uint64_t header_bytes = 0;
  if (content.size() < sizeof header_bytes + 2) return false;
  std::memcpy(&header_bytes, content.data(), sizeof header_bytes);
  return header_bytes <= content.size() - sizeof header_bytes &&
         content.substr(sizeof header_bytes, 2) == "{\"";
}

// An object in each of its first two lines.
bool IsJsonLines(std::string_view content) {
  for (int line = 0; line < 2; ++line) {
    const size_t end = content.find('\n');
    if (end == std::string_view::npos) return false;
    std::string_view object = content.substr(0, end);
    if (object.ends_with('\r')) object.remove_suffix(1);
    if (!object.starts_with("{\"") || !object.ends_with('}')) return false;
    content.remove_prefix(end + 1);
  }
  return true;
}

bool IsPickle(std::string_view content) {
  const bool opens = content.starts_with("\x80\x04\x95") || content.starts_with("\x80\x05\x95");
  return opens && content.back() == '.';
}

// The width of a Megatron data set's ids by its index; nullptr: of none that can be read.
const Width* MegatronWidth(std::string_view index) {
  static constexpr Width kNarrow = Width::kUint16, kWide = Width::kUint32;
  if (index.size() <= kMegatronDtypeAt) return nullptr;
  switch (index[kMegatronDtypeAt]) {  // Megatron's codes: 3 int16, 4 int32, 8 uint16
    case 3:
    case 8:
      return &kNarrow;
    case 4:
      return &kWide;
    default:
      return nullptr;
  }
}

std::string MegatronRemedy(const Width* width) {
  if (width == nullptr)
    return absl::StrCat("its ids are neither 16 nor 32 bits wide; ", kImportIds);
  return absl::StrCat("its ids are ", 8 * static_cast<int>(*width), " bits wide; want ",
                      Word(*width), "FILE.bin");
}

absl::Status CheckMegatron(const std::string& path, std::string_view content, Width width) {
  if (content.starts_with(kMegatronIndex)) {
    return Is(path, "the index of a Megatron data set", MegatronRemedy(MegatronWidth(content)));
  }
  if (!path.ends_with(".bin")) return absl::OkStatus();
  const auto index = MappedFile::Open("corpus", path.substr(0, path.size() - 4) + ".idx");
  if (!index.ok() || !View((*index)->bytes()).starts_with(kMegatronIndex)) return absl::OkStatus();
  const Width* const own = MegatronWidth(View((*index)->bytes()));
  if (own != nullptr && *own == width) return absl::OkStatus();
  return Is(path, "of a Megatron data set (its .idx lies beside it)", MegatronRemedy(own));
}

absl::Status CheckTrainers(const std::string& path, Bytes content, Width width) {
  int32_t magic = 0;
  if (content.size() < kTokenHeaderBytes) return absl::OkStatus();
  std::memcpy(&magic, content.data(), sizeof magic);
  for (const auto& [format, own] :
       {std::pair{kUint16Format, Width::kUint16}, {kUint32Format, Width::kUint32}}) {
    if (magic != format.magic || own == width) continue;
    return Is(path,
              absl::StrCat("a token file of uint", 8 * static_cast<int>(own), " by its header"),
              absl::StrCat("want ", Word(own)));
  }
  return absl::OkStatus();
}

// Pieces from all over the file, each from a multiple of eight bytes on.
std::vector<Bytes> Sample(Bytes content) {
  constexpr size_t kPieces = 8, kPieceBytes = 8192;
  if (content.size() <= kPieces * kPieceBytes) return {content};
  std::vector<Bytes> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t at = (content.size() - kPieceBytes) / (kPieces - 1) * i;
    pieces.push_back(content.subspan(at / 8 * 8, kPieceBytes));
  }
  return pieces;
}

constexpr size_t kFewestBytes = 64;  // below that, statistics say nothing

// What no text has, in any encoding that puts ASCII where it is.
bool IsControl(std::byte b) {
  const auto c = static_cast<unsigned char>(b);
  return c < 32 && !(c >= '\b' && c <= '\r') && c != 27;
}

size_t Controls(Bytes piece) {
  return static_cast<size_t>(std::count_if(piece.begin(), piece.end(), IsControl));
}

// UTF-8 without control characters; a piece may begin and end within a character.
bool IsUtf8Text(Bytes piece) {
  if (Controls(piece) > 0) return false;
  size_t wanted = 0;
  bool begun = false;
  for (const std::byte byte : piece) {
    const auto c = static_cast<unsigned char>(byte);
    const bool continues = (c & 0xC0) == 0x80;
    if (wanted > 0 && !continues) return false;
    if (wanted > 0) {
      --wanted;
    } else if (continues) {
      if (begun) return false;
    } else if (c >= 0x80) {
      if (c < 0xC2 || c > 0xF4) return false;
      wanted = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    }
    begun = begun || !continues;
  }
  return begun;
}

// Numbers of sizeof(T) bytes that lie at even and at odd places.
struct Places {
  uint64_t largest_even = 0, largest_odd = 0;
  int64_t pairs = 0, even_above_odd_bound = 0;
};
constexpr uint64_t kHighBound = 32;  // the upper half of an id: no vocabulary has 2^21 words

template <typename T>
Places PlacesOf(const std::vector<Bytes>& sample) {
  Places out;
  for (const Bytes piece : sample) {
    for (size_t at = 0; at + 2 * sizeof(T) <= piece.size(); at += 2 * sizeof(T)) {
      T pair[2];
      std::memcpy(pair, piece.data() + at, sizeof pair);
      out.largest_even = std::max<uint64_t>(out.largest_even, pair[0]);
      out.largest_odd = std::max<uint64_t>(out.largest_odd, pair[1]);
      out.even_above_odd_bound += pair[0] >= kHighBound ? 1 : 0;
      ++out.pairs;
    }
  }
  return out;
}

// Whether what was read as ids of T are ids of twice the width: their upper halves are small.
template <typename T>
bool IsTwiceAsWide(const std::vector<Bytes>& sample) {
  const Places p = PlacesOf<T>(sample);
  if (p.largest_even == 0) return false;
  if (p.largest_odd == 0) return true;
  return p.largest_odd < kHighBound && 2 * p.even_above_odd_bound > p.pairs;
}

// Mostly printable ASCII and no control characters: text in one of the encodings of before UTF-8.
bool IsAsciiText(Bytes piece) {
  const auto printable = std::count_if(piece.begin(), piece.end(), [](std::byte b) {
    const auto c = static_cast<unsigned char>(b);
    return (c >= 32 && c < 127) || c == '\t' || c == '\n' || c == '\r';
  });
  return Controls(piece) == 0 && 4 * static_cast<size_t>(printable) > 3 * piece.size();
}

bool IsText(const std::vector<Bytes>& sample) {
  return std::all_of(sample.begin(), sample.end(),
                     [](Bytes piece) { return IsUtf8Text(piece) || IsAsciiText(piece); });
}

absl::Status CheckTextStatistics(const std::string& path, const std::vector<Bytes>& sample) {
  size_t bytes = 0, controls = 0;
  for (const Bytes piece : sample) {
    bytes += piece.size();
    controls += Controls(piece);
  }
  constexpr size_t kFewestControls = 8;
  if (controls < kFewestControls || 100 * controls <= bytes) return absl::OkStatus();
  const std::string_view start = View(sample.front()).substr(0, 2);
  if (start == "\xff\xfe" || start == "\xfe\xff") {
    return Is(path, "text in UTF-16", "convert it first: iconv -t UTF-8");
  }
  const char* const word = IsTwiceAsWide<uint16_t>(sample)
                               ? "if it holds token ids, they are 32 bits wide; want tokens32:"
                               : "if it holds token ids of 16 bits, want tokens:";
  return Is(path,
            absl::StrCat("no text (of ", bytes, " bytes, ", controls, " are control characters)"),
            word);
}

absl::Status CheckIdStatistics(const std::string& path, const std::vector<Bytes>& sample,
                               Width width) {
  if (IsText(sample)) return Is(path, "text, not token ids", "want text:");
  const bool wide = IsTwiceAsWide<uint32_t>(sample);
  if (width == Width::kUint16 && IsTwiceAsWide<uint16_t>(sample) && !wide) {
    return Is(path, "of 32-bit ids (as uint16 every second one is their upper half)",
              "want tokens32:");
  }
  if (wide) return Is(path, "of 64-bit ids (every second half of one is 0)", kWriteIds);
  return absl::OkStatus();
}

template <typename T>
bool AllBelow(const std::vector<Bytes>& sample, int64_t vocab, bool swapped) {
  for (const Bytes piece : sample) {
    for (size_t at = 0; at + sizeof(T) <= piece.size(); at += sizeof(T)) {
      std::byte bytes[sizeof(T)];
      std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(at), sizeof(T), bytes);
      if (swapped) std::reverse(bytes, bytes + sizeof(T));
      T id;
      std::memcpy(&id, bytes, sizeof id);
      if (static_cast<int64_t>(id) >= vocab) return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CheckHeader(const std::string& path, std::span<const std::byte> content, Width width) {
  const std::string_view text = View(content);
  for (const Kind& kind : kKinds) {
    if (text.starts_with(kind.magic)) return Is(path, kind.what, kind.remedy);
  }
  if (IsSafetensors(text)) {
    return Is(path, "a file of weights (safetensors)",
              "name a file of text or of token ids; weights are model.init's");
  }
  RETURN_IF_ERROR(CheckNumpy(path, text));
  if (IsJsonLines(text)) {
    return Is(path, "JSON lines, whose braces and keys would be trained on too",
              "`longhaul import text NAME=FILE ..` takes the text of each line");
  }
  if (IsPickle(text)) return Is(path, "a pickled Python object", kWriteIds);
  RETURN_IF_ERROR(CheckMegatron(path, text, width));
  return CheckTrainers(path, content, width);
}

absl::Status CheckStatistics(const std::string& path, std::span<const std::byte> ids, Width width) {
  if (ids.size() < kFewestBytes) return absl::OkStatus();
  const std::vector<Bytes> sample = Sample(ids);
  return width == Width::kByte ? CheckTextStatistics(path, sample)
                               : CheckIdStatistics(path, sample, width);
}

std::string OtherReading(std::span<const std::byte> ids, Width width, int64_t vocab) {
  if (ids.size() < kFewestBytes) return "";
  const std::vector<Bytes> sample = Sample(ids);
  const auto below = [](const char* as, const char* remedy) {
    return absl::StrCat("; all are below it as ", as, ": ", remedy);
  };
  if (width == Width::kUint16 && AllBelow<uint32_t>(sample, vocab, /*swapped=*/false)) {
    return below("uint32", "want tokens32:");
  }
  if (width == Width::kUint32 && AllBelow<uint16_t>(sample, vocab, /*swapped=*/false)) {
    return below("uint16", "want tokens:");
  }
  const bool swapped = width == Width::kUint16
                           ? AllBelow<uint16_t>(sample, vocab, /*swapped=*/true)
                           : AllBelow<uint32_t>(sample, vocab, /*swapped=*/true);
  return swapped ? below("big-endian ids", "swap the bytes of each") : "";
}

}  // namespace longhaul
