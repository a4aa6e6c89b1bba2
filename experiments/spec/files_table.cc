#include "experiments/spec/files_table.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "experiments/spec/spec_keys.h"

namespace longhaul {
namespace {

constexpr char kFilesTable[] = "files";
constexpr size_t kHashDigits = 64;

bool IsHash(const std::string& text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// The value of a key that names files which the run reads; nullptr: it is no such key.
const std::string* NamedBy(RunSpec& spec, const std::string& path) {
  for (const SpecKey& key : SpecKeys()) {
    const bool reads = key.names != Names::kNothing && key.names != Names::kOutput;
    const auto* get = std::get_if<SpecKey::Get<std::string>>(&key.field);
    if (reads && get != nullptr && key.path() == path) return (*get)(spec);
  }
  return nullptr;
}

}  // namespace

absl::Status ReadFilesTable(const TomlValue& root, RunSpec& spec) {
  const TomlValue* found = Find(root, kFilesTable);
  if (found == nullptr) return absl::OkStatus();
  const auto bad = [](const TomlValue& at, const std::string& key, const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: 'files.{}' {}", at.where, Shown(key), what));
  };
  const auto* table = std::get_if<TomlValue::Table>(&found->value);
  if (table == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: 'files' is {}; want a table of hashes by key", found->where, KindName(*found)));
  }
  for (const auto& [key, given] : *table) {
    const std::string* value = NamedBy(spec, key);
    if (value == nullptr) return bad(given, key, "is of no key that names files");
    if (value->empty()) return bad(given, key, "is of a key that this spec does not give");
    FileContent content{.key = key, .value = *value, .sha256 = {}};
    const auto* text = std::get_if<std::string>(&given.value);
    std::istringstream words(text == nullptr ? std::string() : *text);
    words >> content.sha256 >> content.bytes >> content.files >> content.stamp;
    if (!IsHash(content.sha256)) {
      return bad(given, key, "is no SHA-256; want a text of 64 digits of 0-9 and a-f");
    }
    spec.files.push_back(std::move(content));
  }
  return absl::OkStatus();
}

std::string FilesTableText(const RunSpec& spec) {
  if (spec.files.empty()) return "";
  std::string text = fmt::format("\n[{}]\n", kFilesTable);
  for (const FileContent& c : spec.files) {
    text += fmt::format("{} = \"{} {} {} {}\"\n", TomlQuote(c.key), c.sha256, c.bytes, c.files,
                        c.stamp);
  }
  return text;
}

}  // namespace longhaul
