#include "experiments/train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiments/record/whole_file.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

absl::Status WriteSafetensors(const std::string& path, std::span<const SafeTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    const uint64_t end = at + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that values are aligned
  const uint64_t length = text.size();
  ASSIGN_OR_RETURN(WholeFile file, WholeFile::Open(path));
  file.Write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.Write(text);
  for (const SafeTensor& tensor : tensors) {
    file.Write({reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes()});
  }
  return file.Close();
}

namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as the safetensors libraries
constexpr size_t kShownBytes = 60;

struct Type {
  const char* name;
  uint64_t bytes;
};
constexpr Type kTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                           {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                           {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

// A name out of a file, fit for one line of a message.
std::string Shown(const std::string& text) {
  std::string shown;
  for (const char c : text.substr(0, kShownBytes)) {
    shown += c >= ' ' && c <= '~' ? c : '?';
  }
  return text.size() > kShownBytes ? shown + "..." : shown;
}

// Whole numbers from 0 on; false: `list` is something else.
bool ReadWhole(const json& list, std::vector<int64_t>* numbers) {
  if (!list.is_array()) return false;
  for (const json& number : list) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) return false;
    numbers->push_back(static_cast<int64_t>(number.get<uint64_t>()));
  }
  return true;
}

// Bytes of a tensor; false: more than 64 bits hold.
bool BytesOf(const std::vector<int64_t>& shape, uint64_t each, uint64_t* bytes) {
  *bytes = each;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(*bytes, static_cast<uint64_t>(size), bytes)) return false;
  }
  return true;
}

// The header; names that stand twice are found as they are read.
absl::StatusOr<json> ParseHeader(std::string_view text) {
  std::set<std::string> names;
  std::string twice;
  const auto see = [&](int depth, json::parse_event_t event, json& value) {
    if (depth != 1 || event != json::parse_event_t::key) return true;
    if (!names.insert(value.get<std::string>()).second) twice = value.get<std::string>();
    return true;
  };
  json header = json::parse(text, see, /*allow_exceptions=*/false);
  if (!twice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", Shown(twice), "' stands twice"));
  }
  if (!header.is_object()) return absl::InvalidArgumentError("its header is no JSON object");
  return header;
}

absl::StatusOr<SafeEntry> ParseEntry(const json& item, std::span<const std::byte> data) {
  if (!item.is_object() || !item.contains("dtype") || !item["dtype"].is_string()) {
    return absl::InvalidArgumentError("has no dtype");
  }
  SafeEntry entry{item["dtype"].get<std::string>(), {}, {}};
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const Type& known) { return entry.dtype == known.name; });
  if (type == std::end(kTypes)) {
    return absl::InvalidArgumentError(absl::StrCat("dtype '", Shown(entry.dtype), "' is unknown"));
  }
  std::vector<int64_t> offsets;
  if (!item.contains("shape") || !ReadWhole(item["shape"], &entry.shape)) {
    return absl::InvalidArgumentError("its shape is no list of whole numbers from 0 on");
  }
  if (!item.contains("data_offsets") || !ReadWhole(item["data_offsets"], &offsets) ||
      offsets.size() != 2) {
    return absl::InvalidArgumentError("its data_offsets are no two whole numbers from 0 on");
  }
  const auto begin = static_cast<uint64_t>(offsets[0]), end = static_cast<uint64_t>(offsets[1]);
  uint64_t bytes = 0;
  if (begin > end || end > data.size()) {
    return absl::InvalidArgumentError(absl::StrCat("its data_offsets ", begin, " to ", end,
                                                   " are not within the ", data.size(),
                                                   " bytes of values"));
  }
  if (!BytesOf(entry.shape, type->bytes, &bytes) || bytes != end - begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("its shape and dtype do not take the ", end - begin, " bytes it has"));
  }
  entry.values = data.subspan(begin, end - begin);
  return entry;
}

// Tensors lie one behind the other and fill the file.
absl::Status CheckCovered(const std::map<std::string, SafeEntry>& entries,
                          std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  for (const auto& [name, entry] : entries) {
    ranges.emplace_back(entry.values.data(), entry.values.data() + entry.values.size());
  }
  std::sort(ranges.begin(), ranges.end());
  const std::byte* at = data.data();
  for (const auto& [begin, end] : ranges) {
    if (begin != at) {
      return absl::InvalidArgumentError(absl::StrCat(
          "values ", begin < at ? "overlap" : "have a gap", " at byte ", begin - data.data()));
    }
    at = end;
  }
  if (at == data.data() + data.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensors end at byte ", at - data.data(), " of ", data.size(), " of values"));
}

absl::StatusOr<std::map<std::string, SafeEntry>> Parse(std::span<const std::byte> content) {
  uint64_t length = 0;
  if (content.size() < kLengthBytes) return absl::InvalidArgumentError("it has no header");
  if (std::memcmp(content.data(), "GGUF", 4) == 0) {
    return absl::InvalidArgumentError(
        "it is a GGUF: `longhaul import model FILE --out FOLDER` makes safetensors of it");
  }
  std::memcpy(&length, content.data(), kLengthBytes);
  if (length > kMostHeaderBytes || length > content.size() - kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header of ", length, " bytes is longer than the file or 100 MB"));
  }
  const std::string_view text(reinterpret_cast<const char*>(content.data()) + kLengthBytes, length);
  ASSIGN_OR_RETURN(const json header, ParseHeader(text));
  const std::span<const std::byte> data = content.subspan(kLengthBytes + length);
  std::map<std::string, SafeEntry> entries;
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<SafeEntry> entry = ParseEntry(item, data);
    if (!entry.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", Shown(name), "': ", std::string(entry.status().message())));
    }
    entries.emplace(name, *std::move(entry));
  }
  RETURN_IF_ERROR(CheckCovered(entries, data));
  return entries;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = half >> 10 & 0x1F;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1F ? 0xFFu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace

absl::StatusOr<std::map<std::string, SafeEntry>> ParseSafetensors(
    const std::string& name, std::span<const std::byte> content) {
  absl::StatusOr<std::map<std::string, SafeEntry>> entries = Parse(content);
  if (entries.ok()) return entries;
  return absl::InvalidArgumentError(
      absl::StrCat("safetensors ", name, ": ", std::string(entries.status().message())));
}

absl::Status ConvertToFloat(const SafeEntry& entry, std::span<float> values) {
  const std::byte* const bytes = entry.values.data();
  if (entry.dtype == "F32") {
    std::memcpy(values.data(), bytes, values.size_bytes());
    return absl::OkStatus();
  }
  if (entry.dtype != "BF16" && entry.dtype != "F16") {
    return absl::InvalidArgumentError(absl::StrCat("is ", entry.dtype, ", want F32, BF16 or F16"));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * i, sizeof half);
    values[i] = entry.dtype == "F16" ? HalfToFloat(half)
                                     : std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
