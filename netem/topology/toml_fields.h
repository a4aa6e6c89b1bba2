#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "netem/topology/toml_parser.h"

namespace longhaul {

// Reads typed fields out of TOML tables and keeps the first error, as "FILE:LINE: ...". What cannot
// be read counts as absent, so a reader goes on and asks for `status_` at the end. It includes
// toml++, so only .cc files of readers include it.
class TomlFields {
 protected:
  explicit TomlFields(std::string where) : where_(std::move(where)) {}

  // The first error stands; later ones are its consequences.
  void Fail(const toml::node& node, const std::string& message) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        fmt::format("{}:{}: {}", where_, node.source().begin.line, message));
  }

  void Only(const toml::table& t, const std::set<std::string_view>& known) {
    for (const auto& [key, value] : t) {
      if (known.contains(key.str())) continue;
      std::string names;
      for (std::string_view name : known) names += fmt::format(" {}", name);
      Fail(value, fmt::format("unknown key '{}'; known here:{}", key.str(), names));
    }
  }

  std::optional<double> Number(const toml::table& t, std::string_view key) {
    const toml::node* node = t.get(key);
    if (node == nullptr || in_matrices_.contains(key)) return std::nullopt;
    if (const auto value = node->value<double>(); value && node->is_number()) return value;
    Fail(*node, fmt::format("'{}' is no number", key));
    return std::nullopt;
  }

  std::optional<std::string> Text(const toml::table& t, std::string_view key) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return std::nullopt;
    if (const auto value = node->value<std::string>()) return value;
    Fail(*node, fmt::format("'{}' is no text", key));
    return std::nullopt;
  }

  std::string RequiredText(const toml::table& t, std::string_view key) {
    const auto text = Text(t, key);
    if (!text) Fail(t, fmt::format("'{}' is missing", key));
    return text.value_or("");
  }

  const toml::table* Table(const toml::table& t, std::string_view key) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return nullptr;
    if (node->is_table()) return node->as_table();
    Fail(*node, fmt::format("'{}' is no table: write [{}]", key, key));
    return nullptr;
  }

  template <typename Visit>
  void ForEach(const toml::table& t, std::string_view key, const Visit& visit) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return;
    if (!node->is_array_of_tables()) {
      Fail(*node, fmt::format("'{}' is no list of tables: write [[{}]]", key, key));
      return;
    }
    for (const toml::node& entry : *node->as_array()) visit(*entry.as_table());
  }

  bool Flag(const toml::table& t, std::string_view key) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return false;
    if (const auto value = node->value<bool>(); value && node->is_boolean()) return *value;
    Fail(*node, fmt::format("'{}' is neither true nor false", key));
    return false;
  }

  const std::string where_;
  absl::Status status_;
  // Keys whose value names a matrix, while their table is read: no number of theirs is there.
  std::set<std::string, std::less<>> in_matrices_;
};

}  // namespace longhaul
