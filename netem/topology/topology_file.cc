#include "netem/topology/topology_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "base/status_macros.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/rate_trace.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_paths.h"

namespace longhaul {
namespace {

// Every pair may be a path: what a machine could ever carry, and a slip of the pen cannot fill the
// memory.
constexpr int kMaxFileNodes = 256;

class Reader {
 public:
  Reader(const TomlValue& file, std::string folder)
      : where_(file.where), folder_(std::move(folder)), root_(file, "") {}

  absl::StatusOr<Topology> Read() {
    topology_.profile = where_;
    if (const auto mtu = root_.Get<double>("mtu")) {
      if (!(*mtu >= 0 && *mtu <= 1e6)) root_.Fail("mtu", "is no number of bytes");
      if (root_.status().ok()) topology_.mtu = static_cast<int>(*mtu);
    }
    ForEach("site", [&](TableReader& t) { ReadSite(t); });
    ForEach("node", [&](TableReader& t) { ReadNode(t); });
    ForEach("group", [&](TableReader& t) { ReadGroup(t); });
    if (const TomlValue* matrix = root_.Table("matrix")) ReadMatrix(*matrix);
    const TomlValue* between = root_.Table("between");
    if (topology_.nodes.size() > kMaxFileNodes) {
      root_.FailAt(
          "", fmt::format("{} nodes: at most {} in a file", topology_.nodes.size(), kMaxFileNodes));
    }
    for (const char* later : {"path", "change"}) root_.Skip(later);
    Keep(root_.Finish());
    if (!status_.ok()) return status_;
    if (between != nullptr) ReadBetween(*between);
    LinkSites();
    LinkGroups();
    LinkMatrix();
    ForEach("path", [&](TableReader& t) { ReadPath(t); });
    ForEach("change", [&](TableReader& t) { ReadChange(t); });
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
      return absl::InvalidArgumentError(
          where_ + ": no path: no node may talk to another; give [between] a profile, or [[path]]");
    }
    return topology_;
  }

 private:
  // The first error stands; later ones are its consequences.
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  template <typename Visit>
  void ForEach(const std::string& key, const Visit& visit) {
    for (const TomlValue& entry : root_.Tables(key)) {
      TableReader t = TableReader::Of(entry, "");
      visit(t);
      Keep(t.Finish());
    }
    Keep(root_.status());
  }

  static std::string RequiredText(TableReader& t, const std::string& key) {
    std::string text;
    t.Require(key, &text);
    return text;
  }

  int AddNode(TableReader& t, const std::string& name) {
    if (!index_.emplace(name, static_cast<int>(topology_.nodes.size())).second) {
      t.FailAt("", fmt::format("node '{}' is given twice", name));
    }
    const int index = static_cast<int>(topology_.nodes.size());
    lines_.emplace_back(fmt::format("node {} '{}'", index, name), t.LineOf(""));
    NoteKeys(t);
    topology_.nodes.push_back({name, std::nullopt});
    return index;
  }

  void ReadSite(TableReader& t) {
    const std::string name = RequiredText(t, "name");
    const auto access = ReadAccess(t);
    if (!access) t.FailAt("", fmt::format("site '{}' needs up_mbit and down_mbit", name));
    const int index = static_cast<int>(topology_.sites.size());
    if (!sites_.emplace(name, index).second) {
      t.FailAt("", fmt::format("site '{}' is given twice", name));
    }
    lines_.emplace_back(fmt::format("site '{}'", name), t.LineOf(""));
    NoteKeys(t);
    topology_.sites.push_back({name, access.value_or(AccessSpec{})});
  }

  // What a node or a group says of its way out.
  void ReadWayOut(TableReader& t, const std::vector<int>& nodes) {
    const auto access = ReadAccess(t);
    const auto name = t.Get<std::string>("site");
    const auto site = sites_.find(name.value_or(""));
    if (name && site == sites_.end()) t.FailAt("site", fmt::format("no site '{}'", *name));
    if (name && access) t.FailAt("", "has an access line of its own and a site's");
    for (int node : nodes) {
      topology_.nodes[node].access = access;
      if (site != sites_.end()) topology_.nodes[node].site = site->second;
    }
  }

  void ReadNode(TableReader& t) {
    const int node = AddNode(t, RequiredText(t, "name"));
    ReadWayOut(t, {node});
  }

  void ReadGroup(TableReader& t) {
    const std::string name = RequiredText(t, "name");
    const auto count = t.Get<double>("nodes");
    Group& group = groups_.emplace_back();
    group.line = t.LineOf("");
    group.inside = ReadProfile(t, "inside");
    const bool whole =
        count && *count >= 1 && *count <= kMaxFileNodes && *count == std::floor(*count);
    if (!whole) {
      t.FailAt("", fmt::format("group '{}': 'nodes' is no whole number from 1 to {}", name,
                               kMaxFileNodes));
    }
    for (int i = 0; whole && i < static_cast<int>(*count); ++i) {
      group.nodes.push_back(AddNode(t, fmt::format("{}-{}", name, i)));
    }
    ReadWayOut(t, group.nodes);
  }

  // `line`: of the table that says so.
  void Link(int line, int from, int to, PathSpec path) {
    path.from = from;
    path.to = to;
    path.line = line;
    paths_[{from, to}] = path;
    lines_.emplace_back(
        fmt::format("path {} > {}:", topology_.nodes[from].name, topology_.nodes[to].name), line);
  }

  // Figures and the trace beside this file, which is read once.
  PathSpec FiguresAndTrace(TableReader& t) {
    PathSpec path = ReadFigures(t);
    NoteKeys(t);
    const auto name = t.Get<std::string>("rate_trace");
    if (!name) return path;
    if (t.Has("rate_mbit")) t.FailAt("", "rate_mbit and rate_trace are both given");
    const std::string file = name->starts_with('/') ? *name : folder_ + "/" + *name;
    auto& trace = traces_[file];
    if (trace == nullptr) {
      auto read = ReadRateTrace(file);
      if (!read.ok()) {
        const std::string why(read.status().message());
        // Its own file and line, where it has them.
        const bool has_line = why.size() > file.size() + 1 &&
                              isdigit(static_cast<unsigned char>(why[file.size() + 1])) != 0;
        if (has_line && t.status().ok()) Keep(read.status());
        t.FailAt("rate_trace", why);
        return path;
      }
      trace = *read;
    }
    SetRateTrace(path, trace, topology_.mtu);
    return path;
  }

  void ReadBetween(const TomlValue& table) {
    TableReader t = TableReader::Of(table, "");
    const PathSpec path = FiguresAndTrace(t);
    Keep(t.Finish());
    const int n = static_cast<int>(topology_.nodes.size());
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i != j) Link(table.line, i, j, path);
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

  void LinkGroups() {
    for (const Group& group : groups_) {
      for (int i : group.nodes) {
        for (int j : group.nodes) {
          if (group.inside && i != j) Link(group.line, i, j, *group.inside);
        }
      }
    }
  }

  // Its nodes are the file's; a file that has none gets them from here.
  void ReadMatrix(const TomlValue& table) {
    absl::StatusOr<PathsOfPairs> pairs = ReadPairs(table, folder_);
    if (!pairs.ok()) return Keep(pairs.status());
    pairs_ = *std::move(pairs);
    pairs_line_ = table.line;
    TableReader t = TableReader::Of(table, "");
    NoteKeys(t);
    const bool own_nodes = !topology_.nodes.empty();
    for (const std::string& name : pairs_.names) {
      if (!own_nodes) {
        AddNode(t, name);
      } else if (!index_.contains(name)) {
        t.FailAt("",
                 fmt::format("'{}' of {} is no node of this file, and a file without nodes gets "
                             "them all from there",
                             name, pairs_.where));
      }
    }
    Keep(t.status());
  }

  void LinkMatrix() {
    for (size_t i = 0; i < pairs_.names.size(); ++i) {
      for (size_t j = 0; j < pairs_.names.size(); ++j) {
        if (i == j) continue;
        Link(pairs_line_, index_[pairs_.names[i]], index_[pairs_.names[j]], pairs_.paths[i][j]);
      }
    }
  }

  int NodeNamed(TableReader& t, const std::string& key) {
    const std::string name = RequiredText(t, key);
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    t.FailAt("", fmt::format("'{}': no node '{}'", key, name));
    return -1;
  }

  void ReadPath(TableReader& t) {
    const int from = NodeNamed(t, "from"), to = NodeNamed(t, "to");
    const bool both = t.Get<bool>("both").value_or(false);
    const PathSpec path = FiguresAndTrace(t);
    if (!t.status().ok() || !status_.ok()) return;
    LinkNamed(t, from, to, both, path);
    if (both) LinkNamed(t, to, from, both, path);
  }

  // One direction that is named by itself takes the place of what an entry for both said before it.
  void LinkNamed(TableReader& t, int from, int to, bool both, const PathSpec& path) {
    const auto [before, is_new] = named_.emplace(std::pair(from, to), both);
    if (!is_new && (both || !before->second)) {
      t.FailAt("", fmt::format("path {} > {} is given twice{}", topology_.nodes[from].name,
                               topology_.nodes[to].name,
                               both ? "; one direction alone may follow an entry for both" : ""));
    }
    before->second = both;
    Link(t.LineOf(""), from, to, path);
  }

  // What a lab shall do by itself; the words are judged by who does it (lab_control).
  void ReadChange(TableReader& t) {
    const auto at = t.Get<double>("at_s");
    const std::string path = RequiredText(t, "path"), set = RequiredText(t, "set");
    constexpr double kMostSeconds = 1e7;
    if (!at || !(*at >= 0 && *at <= kMostSeconds)) {
      t.FailAt("at_s",
               fmt::format("'at_s': want seconds since the lab is up, 0 to {:g}", kMostSeconds));
      return;
    }
    ScheduledChange change{
        .at = absl::Seconds(*at), .path = path, .figures = {}, .line = t.LineOf("")};
    std::istringstream words(set);
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
  void NoteKeys(const TableReader& t) {
    auto& keys = keys_[t.LineOf("")];
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
      const std::string name(key);
      if (t.Has(name)) keys.emplace_back(called, t.LineOf(name));
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
  int LineOf(const std::string& message) const {
    int line = 1;
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

  struct Group {
    int line;
    std::vector<int> nodes;
    std::optional<PathSpec> inside;
  };

  const std::string where_, folder_;
  TableReader root_;
  absl::Status status_;
  Topology topology_;
  PathsOfPairs pairs_;  // of [matrix]
  int pairs_line_ = 0;
  std::map<std::string, std::shared_ptr<const RateTrace>> traces_;  // by their files
  std::map<std::string, int> sites_;
  std::map<std::string, int> index_;
  std::vector<Group> groups_;
  std::map<std::pair<int, int>, PathSpec> paths_;
  std::map<std::pair<int, int>, bool> named_;  // by [[path]]; whether by one for both directions
  std::vector<std::pair<std::string, int>> lines_;
  std::map<int, std::vector<std::pair<std::string_view, int>>> keys_;  // by their table's line
};

}  // namespace

absl::StatusOr<Topology> ParseTopology(std::string_view text, const std::string& where,
                                       const std::string& folder) {
  ASSIGN_OR_RETURN(const TomlValue file, ParseToml(text, where, kMostTextBytes));
  return Reader(file, folder).Read();
}

absl::StatusOr<Topology> ReadTopology(const std::string& path) {
  const FilesRead read;
  ASSIGN_OR_RETURN(const auto text, ReadTextFile(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  absl::StatusOr<Topology> topology = ParseTopology(text, path, folder.empty() ? "." : folder);
  if (topology.ok()) topology->files = read.paths();
  return topology;
}

}  // namespace longhaul
