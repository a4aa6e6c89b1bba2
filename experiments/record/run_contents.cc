#include "experiments/record/run_contents.h"

#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {
namespace {

std::string FactOf(const RunRow& run, const std::string& key) {
  const auto found = run.facts.find(key);
  return found == run.facts.end() ? "" : found->second;
}

// What `key` says in a resolved spec, which has one key a line; "": nothing.
std::string LineOf(const std::string& spec_toml, const std::string& key) {
  const std::string start = "\n" + key + " = ";
  const size_t at = spec_toml.find(start);
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size();
  return spec_toml.substr(begin, spec_toml.find('\n', begin) - begin);
}

}  // namespace

std::vector<FileContent> ContentsOf(const RunRow& run) {
  std::vector<FileContent> contents = ReadContents(FactOf(run, kNamedFilesFact));
  const std::string data = LineOf(run.spec_toml, "source") + LineOf(run.spec_toml, "eval");
  for (const auto& [key, value] : {std::pair<std::string, std::string>("data_hash", data),
                                   {"eval_hash", data},
                                   {"init_hash", LineOf(run.spec_toml, "init")}}) {
    const std::string hash = FactOf(run, key);
    if (!hash.empty()) contents.push_back({.key = key, .value = value, .sha256 = hash});
  }
  return contents;
}

std::string MixedContents(std::span<const RunRow> runs) {
  // By key and value: how many runs of each content.
  std::map<std::pair<std::string, std::string>, std::map<std::string, int>> seen;
  std::vector<std::pair<std::string, std::string>> order;
  for (const RunRow& run : runs) {
    if (run.status != RunStatus::kOk && run.status != RunStatus::kDiverged) continue;
    for (const FileContent& c : ContentsOf(run)) {
      const std::pair key(c.key, c.value);
      if (!seen.contains(key)) order.push_back(key);
      ++seen[key][c.sha256];
    }
  }
  for (const auto& key : order) {
    if (seen[key].size() < 2) continue;
    std::vector<std::string> counts;
    for (const auto& [hash, count] : seen[key]) {
      counts.push_back(
          fmt::format("SHA-256 {} in {} run{}", ShortHash(hash), count, count == 1 ? "" : "s"));
    }
    return fmt::format("{} ({}): {}", key.first, key.second, fmt::join(counts, ", "));
  }
  return "";
}

}  // namespace longhaul
