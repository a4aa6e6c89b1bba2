#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "netem/topology/pair_matrix.h"
#include "netem/topology/region_tables.h"
#include "netem/topology/toml_figures.h"

namespace longhaul {

// Reads [matrix]: a round-trip time for every ordered pair of nodes, and figures that all pairs
// share or that other matrices give each. As TomlFigures, for .cc files of readers only.
class TomlMatrix : protected TomlFigures {
 protected:
  using TomlFigures::TomlFigures;

  struct PathsOfPairs {
    std::vector<std::string> names;
    std::vector<std::vector<PathSpec>> paths;  // [from][to], as `names`; their ends are not set
    std::string where;                         // the file or table that names the nodes
  };

  PathsOfPairs ReadPairs(const toml::table& t, const std::string& folder) {
    std::set<std::string_view> keys = kFigureKeys;
    for (const char* not_here : {"rtt_ms", "delay_ms", "rate_trace"}) keys.erase(not_here);
    keys.insert({"csv", "table", "regions"});
    Only(t, keys);
    PathsOfPairs pairs;
    const PairMatrix rtt = ReadRtt(t, folder, pairs.where);
    std::map<std::string_view, PairMatrix> each;
    for (const auto& [key, kind] : kPerPair) {
      const toml::node* node = t.get(key);
      const std::string file = node == nullptr ? "" : node->value<std::string>().value_or("");
      if (!file.ends_with(".csv")) continue;
      each[key] = Take(t, ReadPairMatrix(In(folder, file), kind));
      in_matrices_.insert(std::string(key));
    }
    const PathSpec shared = Figures(t, "profile", DelayFrom::kMatrix);
    in_matrices_.clear();
    if (!status_.ok()) return pairs;
    pairs.names = rtt.names;
    for (size_t from = 0; from < rtt.names.size(); ++from) {
      std::vector<PathSpec>& row = pairs.paths.emplace_back(rtt.names.size(), shared);
      for (size_t to = 0; to < row.size(); ++to) {
        row[to].delay = absl::Milliseconds(rtt.cells[from][to]) / 2;
        if (from == to) continue;
        for (const auto& [key, matrix] : each) {
          Set(row[to], key, CellOf(t, key, matrix, rtt.names[from], rtt.names[to]));
        }
      }
    }
    return pairs;
  }

 private:
  // What a matrix of its own may give each pair.
  inline static const std::pair<std::string_view, CellKind> kPerPair[] = {
      {"rate_mbit", {"rate in Mbit/s"}},
      {"jitter_ms", {"jitter in ms"}},
      {"loss", {"share such as 0.01 or 1%", true}},
      {"queue_packets", {"queue in packets"}},
      {"queue_ms", {"queue in ms"}},
      {"queue_bytes", {"queue in bytes"}},
      {"queue_bdp", {"queue in BDP"}}};

  static std::string In(const std::string& folder, const std::string& file) {
    return file.starts_with('/') ? file : folder + "/" + file;
  }

  // A matrix's own error names its own file and line, where it has them.
  PairMatrix Take(const toml::table& t, absl::StatusOr<PairMatrix> matrix) {
    if (matrix.ok()) return *std::move(matrix);
    if (absl::IsInvalidArgument(matrix.status()) && status_.ok()) status_ = matrix.status();
    Fail(t, std::string(matrix.status().message()));
    return {};
  }

  PairMatrix ReadRtt(const toml::table& t, const std::string& folder, std::string& where) {
    const auto file = Text(t, "csv"), table = Text(t, "table");
    if (file.has_value() == table.has_value()) {
      Fail(t, "want 'csv', a file, or 'table', a table of regions (docs/netem.md)");
      return {};
    }
    if (file && t.contains("regions")) Fail(*t.get("regions"), "'regions' are of a 'table'");
    where = file ? In(folder, *file) : "table " + *table;
    return Take(t, file ? ReadPairMatrix(where) : RegionMatrix(*table, Regions(t)));
  }

  std::vector<std::string> Regions(const toml::table& t) {
    std::vector<std::string> regions;
    const toml::node* node = t.get("regions");
    if (node == nullptr) return regions;
    const toml::array* words = node->as_array();
    for (size_t i = 0; words != nullptr && i < words->size(); ++i) {
      regions.push_back(words->get(i)->value<std::string>().value_or(""));
    }
    if (regions.empty() || regions.front().empty()) {
      Fail(*node, "'regions' is no list of names: [\"us-east-1\", \"eu-west-1\"]");
    }
    return regions;
  }

  double CellOf(const toml::table& t, std::string_view key, const PairMatrix& matrix,
                const std::string& from, const std::string& to) {
    const auto at = [&](const std::string& name) {
      const auto found = std::find(matrix.names.begin(), matrix.names.end(), name);
      if (found == matrix.names.end()) {
        Fail(*t.get(key), fmt::format("the matrix of '{}' has no '{}'", key, name));
        return size_t{0};
      }
      return static_cast<size_t>(found - matrix.names.begin());
    };
    const size_t row = at(from), column = at(to);
    return matrix.cells.empty() ? 0 : matrix.cells[row][column];
  }

  static void Set(PathSpec& path, std::string_view key, double cell) {
    using Unit = QueueDepth::Unit;
    if (key == "rate_mbit") path.rate = Mbit(cell);
    if (key == "jitter_ms") path.jitter = absl::Milliseconds(cell);
    if (key == "loss") path.loss_prob = cell;
    if (key == "queue_packets") path.queue = QueueDepth{Unit::kPackets, cell};
    if (key == "queue_ms") path.queue = QueueDepth{Unit::kMilliseconds, cell};
    if (key == "queue_bytes") path.queue = QueueDepth{Unit::kBytes, cell};
    if (key == "queue_bdp") path.queue = QueueDepth{Unit::kBdp, cell};
  }
};

}  // namespace longhaul
