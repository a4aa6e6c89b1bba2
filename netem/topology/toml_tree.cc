#include "netem/topology/toml_tree.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_parser.h"

namespace longhaul {
namespace {

// Knows as much of TOML as it takes to tell a dot of a key from a dot inside a string or comment.
// Where a text is no TOML the two may differ, but there the parser stops too.
class Scan {
 public:
  Scan(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  absl::Status Run() {
    while (at_ < text_.size() && error_.ok()) Step();
    return error_;
  }

 private:
  void Step() {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (c == '"' || c == '\'') {
      SkipString(c);
      return;
    }
    ++at_;
    if (c == '\n') ++line_;
    if (c == '.') {
      if (++dots_ >= kMaxKeyParts) Fail(fmt::format("a key of more than {} parts", kMaxKeyParts));
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') {
      dots_ = 0;
    }
    if (c == '[' || c == '{') {
      if (++depth_ > kMaxBracketDepth) {
        Fail(fmt::format("brackets more than {} deep", kMaxBracketDepth));
      }
    } else if (c == ']' || c == '}') {
      depth_ = std::max(0, depth_ - 1);
    }
  }

  // From the opening quotes to behind the closing ones, or to where the text ends.
  void SkipString(char quote) {
    const std::string three(3, quote);
    const bool long_form = text_.substr(at_).starts_with(three);
    at_ += long_form ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!long_form) return;  // no string ends like this
        ++line_;
      }
      if (c == quote && (!long_form || text_.substr(at_).starts_with(three))) break;
      const bool escape = c == '\\' && quote == '"' && !text_.substr(at_ + 1).starts_with('\n');
      at_ += escape ? 2 : 1;
    }
    at_ = std::min(at_ + (long_form ? 3 : 1), text_.size());
    // A long string may end with quotes of its own: """a""""" holds a"".
    for (int own = 0; long_form && own < 2 && at_ < text_.size() && text_[at_] == quote; ++own) {
      ++at_;
    }
  }

  void Fail(std::string_view what) {
    error_ = absl::InvalidArgumentError(fmt::format("{}:{}: {}", origin_, line_, what));
  }

  const std::string_view text_, origin_;
  size_t at_ = 0;
  int line_ = 1, dots_ = 0, depth_ = 0;
  absl::Status error_;
};

using Table = TomlValue::Table;

absl::StatusOr<TomlValue> Convert(const toml::node& node, std::string_view origin);

absl::StatusOr<TomlValue> ConvertTable(const toml::table& table, std::string_view origin) {
  Table fields;
  for (const auto& [key, child] : table) {
    ASSIGN_OR_RETURN(TomlValue converted, Convert(child, origin));
    fields.emplace(std::string(key.str()), std::move(converted));
  }
  return TomlValue{std::move(fields), {}};
}

absl::StatusOr<TomlValue> ConvertArray(const toml::array& array, std::string_view origin) {
  TomlValue::Array items;
  for (const toml::node& child : array) {
    ASSIGN_OR_RETURN(TomlValue converted, Convert(child, origin));
    items.push_back(std::move(converted));
  }
  return TomlValue{std::move(items), {}};
}

absl::StatusOr<TomlValue> Convert(const toml::node& node, std::string_view origin) {
  const std::string where = fmt::format("{}:{}", origin, node.source().begin.line);
  absl::StatusOr<TomlValue> out = TomlValue{};
  if (const toml::table* table = node.as_table()) {
    out = ConvertTable(*table, origin);
  } else if (const toml::array* array = node.as_array()) {
    out = ConvertArray(*array, origin);
  } else if (node.is_string()) {
    out->value = **node.as_string();
  } else if (node.is_integer()) {
    out->value = **node.as_integer();
  } else if (node.is_floating_point()) {
    out->value = **node.as_floating_point();
  } else if (node.is_boolean()) {
    out->value = **node.as_boolean();
  } else {
    return absl::InvalidArgumentError(where + ": dates and times are not used here; quote it");
  }
  if (out.ok()) out->where = where, out->line = static_cast<int>(node.source().begin.line);
  return out;
}

// Splits "a.b.c". An empty part makes the whole invalid, and so do too many.
std::optional<std::vector<std::string>> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (parts.back().empty() || parts.size() > kMaxKeyParts) return std::nullopt;
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

absl::Status CheckTomlLimits(std::string_view text, std::string_view origin, size_t most_bytes) {
  if (text.size() > most_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: longer than {} bytes: no spec is", origin, most_bytes));
  }
  return Scan(text, origin).Run();
}

absl::StatusOr<TomlValue> ParseToml(std::string_view text, std::string_view origin,
                                    size_t most_bytes) {
  RETURN_IF_ERROR(CheckTomlLimits(text, origin, most_bytes));
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error& error = result.error();
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", origin, error.source().begin.line,
                                                  Shown(error.description(), 300)));
  }
  absl::StatusOr<TomlValue> root = Convert(result.table(), origin);
  if (root.ok()) root->where = origin, root->line = 0;  // the whole file has no line
  return root;
}

absl::StatusOr<TomlValue> ReadTomlFile(const std::string& path,
                                       const std::vector<std::string>& sets) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxTomlBytes));
  absl::StatusOr<TomlValue> root = ParseToml(text, path);
  for (size_t i = 0; root.ok() && i < sets.size(); ++i) {
    RETURN_IF_ERROR(SetByPath(*root, sets[i]));
  }
  return root;
}

absl::Status SetByPath(TomlValue& root, std::string_view path, TomlValue leaf) {
  const std::optional<std::vector<std::string>> parts = SplitPath(path);
  if (!parts)
    return absl::InvalidArgumentError(fmt::format("{}: '{}' is not a key a.b of at most {} parts",
                                                  leaf.where, Shown(path), kMaxKeyParts));
  TomlValue* at = &root;
  for (const std::string& part : *parts) {
    Table* table = std::get_if<Table>(&at->value);
    if (table == nullptr) {
      return absl::InvalidArgumentError(fmt::format("{}: '{}' goes through {}, which is no table",
                                                    leaf.where, Shown(path), KindName(*at)));
    }
    at = &table->try_emplace(part, TomlValue{Table{}, leaf.where}).first->second;
  }
  *at = std::move(leaf);
  return absl::OkStatus();
}

absl::Status SetByPath(TomlValue& root, std::string_view assignment) {
  const std::string where = fmt::format("--set {}", Shown(assignment));
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(where + ": want key.key=value");
  }
  const std::string_view path = Trim(assignment.substr(0, equals));
  const std::string text(Trim(assignment.substr(equals + 1)));
  TomlValue leaf{text, where};
  const absl::StatusOr<TomlValue> parsed = ParseToml("v = " + text, where);
  const size_t signs = std::min(text.find_first_not_of("+-"), text.size());
  const bool digits = signs < 2 && signs < text.size() &&
                      text.find_first_not_of("0123456789", signs) == std::string::npos;
  if (!parsed.ok() && digits) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is no integer (64 bits, no zero ahead)", where, Shown(text)));
  }
  if (parsed.ok()) {
    if (const TomlValue* v = Find(*parsed, "v")) leaf.value = v->value;
  }
  return SetByPath(root, path, std::move(leaf));
}

void Merge(TomlValue& base, const TomlValue& over) {
  Table* into = std::get_if<Table>(&base.value);
  const Table* from = std::get_if<Table>(&over.value);
  if (into == nullptr || from == nullptr) {
    base = over;
    return;
  }
  for (const auto& [key, child] : *from) {
    const auto found = into->find(key);
    if (found == into->end()) {
      into->emplace(key, child);
    } else {
      Merge(found->second, child);
    }
  }
}

const TomlValue* Find(const TomlValue& root, std::string_view path) {
  const std::optional<std::vector<std::string>> parts = SplitPath(path);
  if (!parts) return nullptr;
  const TomlValue* at = &root;
  for (const std::string& part : *parts) {
    const Table* table = std::get_if<Table>(&at->value);
    if (table == nullptr) return nullptr;
    const auto found = table->find(part);
    if (found == table->end()) return nullptr;
    at = &found->second;
  }
  return at;
}

void Erase(TomlValue& root, std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string leaf(path.substr(dot == std::string_view::npos ? 0 : dot + 1));
  const TomlValue* parent = dot == std::string_view::npos ? &root : Find(root, path.substr(0, dot));
  if (parent == nullptr) return;
  // `parent` lies inside the non-const `root`.
  if (Table* table = std::get_if<Table>(&const_cast<TomlValue*>(parent)->value)) {
    table->erase(leaf);
  }
}

std::string Shown(std::string_view text, size_t most) {
  const bool cut = text.size() > most;
  if (cut) {
    size_t end = most - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // UTF-8
    text = text.substr(0, end);
  }
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return cut ? out + "..." : out;
}

std::string_view KindName(const TomlValue& value) {
  constexpr std::string_view kNames[] = {"a table",    "an array", "a string",
                                         "an integer", "a float",  "a boolean"};
  return kNames[value.value.index()];
}

std::string TomlQuote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string TomlNumber(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".eni") == std::string::npos) text += ".0";
  return text;
}

}  // namespace longhaul
