#include "netem/topology_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "netem/rtt_matrix.h"
#include "netem/toml_fields.h"

namespace longhaul {
namespace {

// Every pair may be a path: what a machine could ever carry, and a slip of the pen cannot fill the
// memory.
constexpr int kMaxFileNodes = 256;

class Reader : private TomlFields {
 public:
  Reader(std::string where, std::string folder)
      : TomlFields(std::move(where)), folder_(std::move(folder)) {}

  absl::StatusOr<Topology> Read(const toml::table& root) {
    topology_.profile = where_;
    Only(root, {"mtu", "node", "group", "between", "matrix", "path"});
    if (const auto mtu = Number(root, "mtu")) {
      if (!(*mtu >= 0 && *mtu <= 1e6)) Fail(*root.get("mtu"), "'mtu' is no number of bytes");
      if (status_.ok()) topology_.mtu = static_cast<int>(*mtu);
    }
    ForEach(root, "node", [&](const toml::table& t) { ReadNode(t); });
    ForEach(root, "group", [&](const toml::table& t) { ReadGroup(t); });
    if (topology_.nodes.size() > kMaxFileNodes) {
      Fail(root,
           fmt::format("{} nodes: at most {} in a file", topology_.nodes.size(), kMaxFileNodes));
    }
    if (!status_.ok()) return status_;
    if (const toml::table* t = Table(root, "between")) ReadBetween(*t);
    ForEach(root, "group", [&](const toml::table& t) { LinkGroup(t); });
    if (const toml::table* t = Table(root, "matrix")) ReadMatrix(*t);
    ForEach(root, "path", [&](const toml::table& t) { ReadPath(t); });
    if (!status_.ok()) return status_;
    for (auto& [pair, path] : paths_) topology_.paths.push_back(path);
    if (auto s = Validate(topology_); !s.ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: {}", where_, LineOf(std::string(s.message())), std::string(s.message())));
    }
    return topology_;
  }

 private:
  int AddNode(const toml::table& t, const std::string& name) {
    if (!index_.emplace(name, static_cast<int>(topology_.nodes.size())).second) {
      Fail(t, fmt::format("node '{}' is given twice", name));
    }
    lines_.emplace_back(fmt::format("'{}'", name), t.source().begin.line);
    topology_.nodes.push_back({name, std::nullopt});
    return static_cast<int>(topology_.nodes.size()) - 1;
  }

  void ReadNode(const toml::table& t) {
    Only(t, {"name", "up_mbit", "down_mbit", "access_queue_packets", "access_queue_ms",
             "access_queue_bytes", "access_queue_bdp"});
    NodeSpec& node = topology_.nodes[AddNode(t, RequiredText(t, "name"))];
    const auto up = Number(t, "up_mbit"), down = Number(t, "down_mbit");
    if (up.has_value() != down.has_value()) {
      Fail(t, "an access line needs both up_mbit and down_mbit");
    }
    const auto queue = Queue(t, "access_queue");
    if (queue && !up) Fail(t, "an access queue needs up_mbit and down_mbit");
    if (up && down) node.access = AccessSpec{Mbit(*up), Mbit(*down), queue};
  }

  std::optional<QueueDepth> Queue(const toml::table& t, const std::string& prefix) {
    using Unit = QueueDepth::Unit;
    std::optional<QueueDepth> queue;
    for (const auto& [unit, suffix] : {std::pair{Unit::kPackets, "_packets"},
                                       {Unit::kMilliseconds, "_ms"},
                                       {Unit::kBytes, "_bytes"},
                                       {Unit::kBdp, "_bdp"}}) {
      const auto amount = Number(t, prefix + suffix);
      if (!amount) continue;
      if (queue) Fail(t, fmt::format("{} is given in two units", prefix));
      queue = QueueDepth{unit, *amount};
    }
    return queue;
  }

  void ReadGroup(const toml::table& t) {
    Only(t, {"name", "nodes", "inside", "up_mbit", "down_mbit"});
    const std::string name = RequiredText(t, "name");
    const auto count = Number(t, "nodes");
    if (!count || !(*count >= 1 && *count <= kMaxFileNodes) || *count != static_cast<int>(*count)) {
      Fail(t,
           fmt::format("group '{}': 'nodes' is no whole number from 1 to {}", name, kMaxFileNodes));
      return;
    }
    const auto up = Number(t, "up_mbit"), down = Number(t, "down_mbit");
    if (up.has_value() != down.has_value()) {
      Fail(t, "an access line needs both up_mbit and down_mbit");
    }
    for (int i = 0; i < static_cast<int>(*count); ++i) {
      const int node = AddNode(t, fmt::format("{}-{}", name, i));
      groups_[name].push_back(node);
      if (up && down) topology_.nodes[node].access = AccessSpec{Mbit(*up), Mbit(*down)};
    }
  }

  // A path with a profile's figures and what the table says instead.
  PathSpec Figures(const toml::table& t, std::string_view profile_key) {
    PathSpec path{.from = 0,
                  .to = 0,
                  .rate = std::nullopt,
                  .delay = absl::ZeroDuration(),
                  .jitter = absl::ZeroDuration()};
    const auto profile = Text(t, profile_key);
    if (profile) {
      auto known = UniformTopology(*profile, 2);
      if (!known.ok()) {
        Fail(*t.get(profile_key), std::string(known.status().message()));
        return path;
      }
      path = known->paths[0];
    }
    if (const auto rate = Number(t, "rate_mbit")) {
      path.rate = *rate == 0 ? std::nullopt : std::optional(Mbit(*rate));
    }
    const auto rtt = Number(t, "rtt_ms"), delay = Number(t, "delay_ms");
    if (rtt && delay) Fail(t, "rtt_ms and delay_ms are both given; a delay is half an RTT");
    if (rtt) path.delay = absl::Milliseconds(*rtt) / 2;
    if (delay) path.delay = absl::Milliseconds(*delay);
    if (!profile && !rtt && !delay && profile_key == "profile") {
      Fail(t, "a path needs a profile, rtt_ms or delay_ms");
    }
    ReadImpairment(t, path);
    path.queue = Queue(t, "queue");
    return path;
  }

  void ReadImpairment(const toml::table& t, PathSpec& path) {
    if (const auto jitter = Number(t, "jitter_ms")) path.jitter = absl::Milliseconds(*jitter);
    if (const auto shape = Text(t, "jitter_shape")) {
      if (*shape != "normal" && *shape != "uniform") {
        Fail(*t.get("jitter_shape"), "jitter_shape is \"normal\" or \"uniform\"");
      }
      path.jitter_shape = *shape == "uniform" ? JitterShape::kUniform : JitterShape::kNormal;
    }
    if (const auto loss = Number(t, "loss")) path.loss_prob = *loss;
    const toml::node* burst = t.get("burst_loss");
    if (burst == nullptr) return;
    const toml::array* values = burst->as_array();
    if (values == nullptr || values->size() != 4 || !values->is_homogeneous<double>()) {
      Fail(*burst, "burst_loss wants four numbers with a point: [0.01, 0.3, 1.0, 0.0]");
      return;
    }
    const auto at = [&](size_t i) { return values->get(i)->value<double>().value_or(0); };
    path.burst_loss = BurstLoss{at(0), at(1), at(2), at(3)};
  }

  void Link(const toml::table& t, int from, int to, PathSpec path) {
    path.from = from;
    path.to = to;
    paths_[{from, to}] = path;
    lines_.emplace_back(
        fmt::format("path {} > {}:", topology_.nodes[from].name, topology_.nodes[to].name),
        t.source().begin.line);
  }

  void ReadBetween(const toml::table& t) {
    Only(t, kFigureKeys);
    const PathSpec path = Figures(t, "profile");
    const int n = static_cast<int>(topology_.nodes.size());
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i != j) Link(t, i, j, path);
      }
    }
  }

  void LinkGroup(const toml::table& t) {
    const PathSpec path = Figures(t, "inside");
    if (!t.contains("inside")) return;
    const std::vector<int>& members = groups_[Text(t, "name").value_or("")];
    for (int i : members) {
      for (int j : members) {
        if (i != j) Link(t, i, j, path);
      }
    }
  }

  void ReadMatrix(const toml::table& t) {
    Only(t, {"csv", "rate_mbit"});
    const std::string file = folder_ + "/" + RequiredText(t, "csv");
    auto matrix = ReadRttMatrix(file);
    if (!matrix.ok()) {
      Fail(t, std::string(matrix.status().message()));
      return;
    }
    const double rate = Number(t, "rate_mbit").value_or(0);
    for (size_t i = 0; i < matrix->names.size(); ++i) {
      for (size_t j = 0; j < matrix->names.size(); ++j) {
        if (i == j) continue;
        const auto from = index_.find(matrix->names[i]), to = index_.find(matrix->names[j]);
        if (from == index_.end() || to == index_.end()) {
          Fail(t, fmt::format("{}: '{}' is no node of this file", file,
                              matrix->names[from == index_.end() ? i : j]));
          return;
        }
        Link(t, from->second, to->second,
             {.from = 0,
              .to = 0,
              .rate = rate == 0 ? std::nullopt : std::optional(Mbit(rate)),
              .delay = absl::Milliseconds(matrix->rtt_ms[i][j]) / 2,
              .jitter = absl::ZeroDuration()});
      }
    }
  }

  int NodeNamed(const toml::table& t, std::string_view key) {
    const std::string name = RequiredText(t, key);
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    Fail(t, fmt::format("'{}': no node '{}'", key, name));
    return -1;
  }

  void ReadPath(const toml::table& t) {
    std::set<std::string_view> keys = kFigureKeys;
    keys.insert({"from", "to", "both"});
    Only(t, keys);
    const int from = NodeNamed(t, "from"), to = NodeNamed(t, "to");
    const PathSpec path = Figures(t, "profile");
    if (!status_.ok()) return;
    if (!named_.insert({from, to}).second) Fail(t, "this path is given twice");
    Link(t, from, to, path);
    if (!Flag(t, "both")) return;
    if (!named_.insert({to, from}).second) Fail(t, "this path is given twice");
    Link(t, to, from, path);
  }

  // Of the entry that a message of Validate is about; the last that named it wins.
  long LineOf(const std::string& message) const {
    long line = 1;
    for (const auto& [what, at] : lines_) {
      if (message.find(what) != std::string::npos) line = at;
    }
    return line;
  }

  inline static const std::set<std::string_view> kFigureKeys = {
      "profile", "rate_mbit",  "rtt_ms",   "delay_ms",    "jitter_ms", "jitter_shape",
      "loss",    "burst_loss", "queue_ms", "queue_bytes", "queue_bdp", "queue_packets"};

  const std::string folder_;
  Topology topology_;
  std::map<std::string, int> index_;
  std::map<std::string, std::vector<int>> groups_;
  std::map<std::pair<int, int>, PathSpec> paths_;
  std::set<std::pair<int, int>> named_;  // by [[path]]
  std::vector<std::pair<std::string, long>> lines_;
};

// Names and keys are ASCII, and toml++ 3.3 has undefined behaviour where it looks for white space
// among other characters (a fuzzer's finding). A line that is a comment may hold any, up to a quote
// (which could end a string of several lines).
absl::Status CheckAscii(std::string_view text, const std::string& where) {
  int line = 1;
  bool blank = true, comment = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      blank = true;
      comment = false;
    } else if (static_cast<unsigned char>(c) >= 0x80 && !comment) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: a character that is not ASCII; only lines that are comments may have those",
          where, line));
    } else {
      comment = (comment || (blank && c == '#')) && c != '"' && c != '\'';
      blank = blank && (c == ' ' || c == '\t');
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Topology> ParseTopology(std::string_view text, const std::string& where,
                                       const std::string& folder) {
  if (absl::Status s = CheckAscii(text, where); !s.ok()) return s;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", where,
                                                  parsed.error().source().begin.line,
                                                  std::string(parsed.error().description())));
  }
  return Reader(where, folder).Read(parsed.table());
}

absl::StatusOr<Topology> ReadTopology(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be read", path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return ParseTopology(text.str(), path, folder.empty() ? "." : folder);
}

absl::StatusOr<Topology> TopologyNamed(const std::string& profile_or_file) {
  auto uniform = UniformTopology(profile_or_file, 2);
  if (uniform.ok()) {
    uniform->nodes[0].name = "a";
    uniform->nodes[1].name = "b";
    return uniform;
  }
  if (std::filesystem::exists(profile_or_file)) return ReadTopology(profile_or_file);
  return absl::NotFoundError(
      fmt::format("{}; nor is there a file of that name", std::string(uniform.status().message())));
}

}  // namespace longhaul
