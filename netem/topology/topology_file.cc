#include "netem/topology/topology_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "netem/topology/access_lines.h"
#include "netem/topology/rate_trace.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_matrix.h"

namespace longhaul {
namespace {

// Every pair may be a path: what a machine could ever carry, and a slip of the pen cannot fill the
// memory.
constexpr int kMaxFileNodes = 256;

class Reader : private TomlMatrix {
 public:
  Reader(std::string where, std::string folder)
      : TomlMatrix(std::move(where)), folder_(std::move(folder)) {}

  absl::StatusOr<Topology> Read(const toml::table& root) {
    topology_.profile = where_;
    Only(root, {"mtu", "site", "node", "group", "between", "matrix", "path", "change"});
    if (const auto mtu = Number(root, "mtu")) {
      if (!(*mtu >= 0 && *mtu <= 1e6)) Fail(*root.get("mtu"), "'mtu' is no number of bytes");
      if (status_.ok()) topology_.mtu = static_cast<int>(*mtu);
    }
    ForEach(root, "site", [&](const toml::table& t) { ReadSite(t); });
    ForEach(root, "node", [&](const toml::table& t) { ReadNode(t); });
    ForEach(root, "group", [&](const toml::table& t) { ReadGroup(t); });
    if (const toml::table* t = Table(root, "matrix")) ReadMatrixNodes(*t);
    if (topology_.nodes.size() > kMaxFileNodes) {
      Fail(root,
           fmt::format("{} nodes: at most {} in a file", topology_.nodes.size(), kMaxFileNodes));
    }
    if (!status_.ok()) return status_;
    if (const toml::table* t = Table(root, "between")) ReadBetween(*t);
    LinkSites();
    ForEach(root, "group", [&](const toml::table& t) { LinkGroup(t); });
    if (const toml::table* t = Table(root, "matrix")) LinkMatrix(*t);
    ForEach(root, "path", [&](const toml::table& t) { ReadPath(t); });
    ForEach(root, "change", [&](const toml::table& t) { ReadChange(t); });
    if (!status_.ok()) return status_;
    std::stable_sort(
        topology_.changes.begin(), topology_.changes.end(),
        [](const ScheduledChange& a, const ScheduledChange& b) { return a.at < b.at; });
    for (auto& [pair, path] : paths_) topology_.paths.push_back(path);
    if (auto s = Validate(topology_); !s.ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: {}", where_, LineOf(std::string(s.message())), std::string(s.message())));
    }
    if (topology_.nodes.size() > 1 && topology_.paths.empty()) {
      Fail(root, "no path: no node may talk to another; give [between] a profile, or [[path]]");
      return status_;
    }
    return topology_;
  }

 private:
  int AddNode(const toml::table& t, const std::string& name) {
    if (!index_.emplace(name, static_cast<int>(topology_.nodes.size())).second) {
      Fail(t, fmt::format("node '{}' is given twice", name));
    }
    const int index = static_cast<int>(topology_.nodes.size());
    lines_.emplace_back(fmt::format("node {} '{}'", index, name), t.source().begin.line);
    NoteKeys(t);
    topology_.nodes.push_back({name, std::nullopt});
    return index;
  }

  void ReadSite(const toml::table& t) {
    Only(t, kAccessKeys);
    const std::string name = RequiredText(t, "name");
    const auto access = Access(t);
    if (!access) Fail(t, fmt::format("site '{}' needs up_mbit and down_mbit", name));
    const int index = static_cast<int>(topology_.sites.size());
    if (!sites_.emplace(name, index).second) Fail(t, fmt::format("site '{}' is given twice", name));
    lines_.emplace_back(fmt::format("site '{}'", name), t.source().begin.line);
    NoteKeys(t);
    topology_.sites.push_back({name, access.value_or(AccessSpec{})});
  }

  // What a node or a group says of its way out.
  void ReadWayOut(const toml::table& t, const std::vector<int>& nodes) {
    const auto access = Access(t);
    const auto name = Text(t, "site");
    const auto site = sites_.find(name.value_or(""));
    if (name && site == sites_.end()) Fail(*t.get("site"), fmt::format("no site '{}'", *name));
    if (name && access) Fail(t, "has an access line of its own and a site's");
    for (int node : nodes) {
      topology_.nodes[node].access = access;
      if (site != sites_.end()) topology_.nodes[node].site = site->second;
    }
  }

  void ReadNode(const toml::table& t) {
    std::set<std::string_view> keys = kAccessKeys;
    keys.insert("site");
    Only(t, keys);
    ReadWayOut(t, {AddNode(t, RequiredText(t, "name"))});
  }

  void ReadGroup(const toml::table& t) {
    std::set<std::string_view> keys = kAccessKeys;
    keys.insert({"nodes", "inside", "site"});
    Only(t, keys);
    const std::string name = RequiredText(t, "name");
    const auto count = Number(t, "nodes");
    if (!count || !(*count >= 1 && *count <= kMaxFileNodes) || *count != static_cast<int>(*count)) {
      Fail(t,
           fmt::format("group '{}': 'nodes' is no whole number from 1 to {}", name, kMaxFileNodes));
      return;
    }
    std::vector<int>& members = groups_[name];
    for (int i = 0; i < static_cast<int>(*count); ++i) {
      members.push_back(AddNode(t, fmt::format("{}-{}", name, i)));
    }
    ReadWayOut(t, members);
  }

  void Link(const toml::table& t, int from, int to, PathSpec path) {
    path.from = from;
    path.to = to;
    path.line = static_cast<int>(t.source().begin.line);
    paths_[{from, to}] = path;
    NoteKeys(t);
    lines_.emplace_back(
        fmt::format("path {} > {}:", topology_.nodes[from].name, topology_.nodes[to].name),
        t.source().begin.line);
  }

  // Figures and the trace beside this file, which is read once.
  PathSpec FiguresAndTrace(const toml::table& t, std::string_view profile_key) {
    PathSpec path = Figures(t, profile_key);
    const auto name = Text(t, "rate_trace");
    if (!name) return path;
    if (t.contains("rate_mbit")) Fail(t, "rate_mbit and rate_trace are both given");
    const std::string file = name->starts_with('/') ? *name : folder_ + "/" + *name;
    auto& trace = traces_[file];
    if (trace == nullptr) {
      auto read = ReadRateTrace(file);
      if (!read.ok()) {
        const toml::node& node = *t.get("rate_trace");
        const std::string why(read.status().message());
        // Its own file and line, where it has them.
        const bool has_line = why.size() > file.size() + 1 &&
                              isdigit(static_cast<unsigned char>(why[file.size() + 1])) != 0;
        if (has_line && status_.ok()) status_ = read.status();
        Fail(node, why);
        return path;
      }
      trace = *read;
    }
    SetRateTrace(path, trace, topology_.mtu);
    return path;
  }

  void ReadBetween(const toml::table& t) {
    Only(t, kFigureKeys);
    const PathSpec path = FiguresAndTrace(t, "profile");
    const int n = static_cast<int>(topology_.nodes.size());
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i != j) Link(t, i, j, path);
      }
    }
  }

  // The LAN between nodes of one site: nothing but what [[group]] inside, [matrix] or [[path]] say.
  void LinkSites() {
    const int n = static_cast<int>(topology_.nodes.size());
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i == j || !InOneSite(topology_, i, j)) continue;
        paths_[{i, j}] = {.from = i,
                          .to = j,
                          .rate = std::nullopt,
                          .delay = absl::ZeroDuration(),
                          .jitter = absl::ZeroDuration()};
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

  // Its nodes are the file's; a file that has none gets them from here.
  void ReadMatrixNodes(const toml::table& t) {
    pairs_ = ReadPairs(t, folder_);
    if (!topology_.nodes.empty()) return;
    for (const std::string& name : pairs_.names) AddNode(t, name);
  }

  void LinkMatrix(const toml::table& t) {
    for (const std::string& name : pairs_.names) {
      if (index_.contains(name)) continue;
      Fail(t, fmt::format("'{}' of {} is no node of this file, and a file without nodes gets them "
                          "all from there",
                          name, pairs_.where));
      return;
    }
    for (size_t i = 0; i < pairs_.names.size(); ++i) {
      for (size_t j = 0; j < pairs_.names.size(); ++j) {
        if (i == j) continue;
        Link(t, index_[pairs_.names[i]], index_[pairs_.names[j]], pairs_.paths[i][j]);
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
    const bool both = Flag(t, "both");
    const PathSpec path = FiguresAndTrace(t, "profile");
    if (!status_.ok()) return;
    LinkNamed(t, from, to, both, path);
    if (both) LinkNamed(t, to, from, both, path);
  }

  // One direction that is named by itself takes the place of what an entry for both said before it.
  void LinkNamed(const toml::table& t, int from, int to, bool both, const PathSpec& path) {
    const auto [before, is_new] = named_.emplace(std::pair(from, to), both);
    if (!is_new && (both || !before->second)) {
      Fail(t, fmt::format("path {} > {} is given twice{}", topology_.nodes[from].name,
                          topology_.nodes[to].name,
                          both ? "; one direction alone may follow an entry for both" : ""));
    }
    before->second = both;
    Link(t, from, to, path);
  }

  // What a lab shall do by itself; the words are judged by who does it (lab_control).
  void ReadChange(const toml::table& t) {
    Only(t, {"at_s", "path", "set"});
    const auto at = Number(t, "at_s");
    constexpr double kMostSeconds = 1e7;
    if (!at || !(*at >= 0 && *at <= kMostSeconds)) {
      Fail(at ? *t.get("at_s") : static_cast<const toml::node&>(t),
           fmt::format("'at_s': want seconds since the lab is up, 0 to {:g}", kMostSeconds));
      return;
    }
    ScheduledChange change{.at = absl::Seconds(*at),
                           .path = RequiredText(t, "path"),
                           .figures = {},
                           .line = static_cast<int>(t.source().begin.line)};
    std::istringstream words(RequiredText(t, "set"));
    for (std::string word; words >> word;) {
      // A trace lies beside this file, wherever the lab's process is.
      constexpr std::string_view kTrace = "rate_trace=";
      const std::string_view file = std::string_view(word).substr(
          std::min(word.size(), word.starts_with(kTrace) ? kTrace.size() : word.size()));
      if (!file.empty() && file != "none" && file[0] != '/') {
        word = fmt::format("{}{}", kTrace,
                           std::filesystem::absolute(folder_ + "/" + std::string(file)).string());
      }
      change.figures.push_back(word);
    }
    topology_.changes.push_back(std::move(change));
  }

  // Lines of a table's keys, by what Validate calls them.
  void NoteKeys(const toml::table& t) {
    auto& keys = keys_[t.source().begin.line];
    if (!keys.empty()) return;
    constexpr std::pair<std::string_view, std::string_view> kOfLines[] = {
        {": access: aqm_target", "access_aqm_target_ms"},
        {": access: aqm_interval", "access_aqm_interval_ms"},
        {": access: ecn", "access_ecn"},
        {": access.up", "up_mbit"},
        {": access.down", "down_mbit"},
        {": access", "access_queue_packets"},
        {": access", "access_queue_ms"},
        {": access", "access_queue_bytes"},
        {": access", "access_queue_bdp"},
    };
    const auto note = [&](std::string_view called, std::string_view key) {
      if (const toml::node* node = t.get(key)) keys.emplace_back(called, node->source().begin.line);
    };
    for (const PathFigure& figure : PathFigureTable()) {
      for (std::string_view key : figure.keys) note(figure.called, key);
    }
    for (const auto& [called, key] : kOfLines) note(called, key);
    // The longest first: one name may begin another.
    std::stable_sort(keys.begin(), keys.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  // Of the key, or else the entry, that a message of Validate is about; the last that named the
  // entry wins.
  long LineOf(const std::string& message) const {
    long line = 1;
    for (const auto& [what, at] : lines_) {
      if (message.find(what) != std::string::npos) line = at;
    }
    const auto keys = keys_.find(line);
    if (keys == keys_.end()) return line;
    for (const auto& [called, at] : keys->second) {
      if (message.find(called) != std::string::npos) return at;
    }
    return line;
  }

  const std::string folder_;
  Topology topology_;
  PathsOfPairs pairs_;                                              // of [matrix]
  std::map<std::string, std::shared_ptr<const RateTrace>> traces_;  // by their files
  std::map<std::string, int> sites_;
  std::map<std::string, int> index_;
  std::map<std::string, std::vector<int>> groups_;
  std::map<std::pair<int, int>, PathSpec> paths_;
  std::map<std::pair<int, int>, bool> named_;  // by [[path]]; whether by one for both directions
  std::vector<std::pair<std::string, long>> lines_;
  std::map<long, std::vector<std::pair<std::string_view, long>>> keys_;  // by their table's line
};

}  // namespace

absl::StatusOr<Topology> ParseTopology(std::string_view text, const std::string& where,
                                       const std::string& folder) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", where,
                                                  parsed.error().source().begin.line,
                                                  std::string(parsed.error().description())));
  }
  return Reader(where, folder).Read(parsed.table());
}

absl::StatusOr<Topology> ReadTopology(const std::string& path) {
  const FilesRead read;
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  const std::string folder = std::filesystem::path(path).parent_path().string();
  absl::StatusOr<Topology> topology = ParseTopology(*text, path, folder.empty() ? "." : folder);
  if (topology.ok()) topology->files = read.paths();
  return topology;
}

}  // namespace longhaul
