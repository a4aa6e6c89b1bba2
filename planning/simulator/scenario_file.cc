#include "planning/simulator/scenario_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "netem/topology/table_reader.h"
#include "planning/simulator/switches.h"

namespace longhaul::simulator {
namespace {

constexpr std::string_view kTables[] = {"node", "model", "network", "training", "switches"};
// What a file may have beside them, and a [[scenario]] may not.
constexpr std::string_view kOthers[] = {"search",    "assume",    "scenario",  "columns",
                                        "published", "threshold", "break_even"};

// Reads one key, a value or a list, and judges each value.
class KeyReader {
 public:
  KeyReader(TableReader& reader, const ScenarioKey& key) : r_(reader), key_(key), name_(key.name) {}

  // The values, or none where the file does not have the key.
  void Read(bool list, Axis& axis) {
    switch (key_.kind) {
      case ScenarioKey::Kind::kReal:
        return Numbers<double>(list, axis);
      case ScenarioKey::Kind::kWhole:
        return Numbers<int64_t>(list, axis);
      case ScenarioKey::Kind::kChoice:
        return Choices(list, axis);
      case ScenarioKey::Kind::kFlag:
        break;
    }
    bool value = false;
    r_.Require(name_, &value);
    Add(value ? 1 : 0, value ? "true" : "false", axis);
  }

 private:
  template <typename T>
  void Numbers(bool list, Axis& axis) {
    std::vector<T> values;
    if (list) {
      r_.Require(name_, &values);
    } else {
      values.resize(1);
      r_.Require(name_, &values[0]);
    }
    for (const T value : values) {
      r_.Within(name_, value, static_cast<T>(key_.least), static_cast<T>(key_.most));
      Add(static_cast<double>(value), fmt::format("{}", value), axis);
    }
  }

  void Choices(bool list, Axis& axis) {
    std::vector<std::string> values;
    if (list) {
      r_.Require(name_, &values);
    } else {
      values.resize(1);
      r_.Require(name_, &values[0]);
    }
    for (const std::string& value : values) {
      r_.OneOf(name_, value, key_.names);
      const auto found = std::find(key_.names.begin(), key_.names.end(), value);
      if (found != key_.names.end()) {
        Add(static_cast<double>(found - key_.names.begin()), value, axis);
      }
    }
  }

  static void Add(double value, std::string label, Axis& axis) {
    axis.values.push_back(value);
    axis.labels.push_back(std::move(label));
  }

  TableReader& r_;
  const ScenarioKey& key_;
  const std::string name_;
};

void ReadKey(TableReader& r, const ScenarioKey& key, const TomlValue& root, ScenarioFile& file) {
  const std::string name(key.name);
  r.Skip(name);
  if (!r.Has(name) || !r.status().ok()) return;
  const std::string full = key.table.empty() ? name : fmt::format("{}.{}", key.table, name);
  const TomlValue* value = Find(root, full);
  const bool list = std::holds_alternative<TomlValue::Array>(value->value);
  Axis axis{full, {}, {}, key.set};
  KeyReader(r, key).Read(list, axis);
  if (!r.status().ok()) return;
  if (!list) return key.set(file.draft, axis.values.front());
  r.Check(!axis.values.empty(), name, "is an empty list; want a value or a list of values");
  const std::set<double> distinct(axis.values.begin(), axis.values.end());
  r.Check(distinct.size() == axis.values.size(), name, "has a value twice");
  file.axes.push_back(std::move(axis));
}

absl::Status ReadSearch(const TomlValue& root, ScenarioFile& file) {
  TableReader r(root, "search");
  if (!r.present()) return r.Finish();
  Search search;
  r.Allow("target", &search.target_name);
  r.OneOf("target", search.target_name, {"c_local", "c_quality", "c_raw"});
  if (search.target_name == "c_quality") search.target = Target::kQuality;
  if (search.target_name == "c_raw") search.target = Target::kRaw;
  r.Require("at_least", &search.at_least);
  r.Check(!search.at_least.empty() || !r.Has("at_least"), "at_least", "is an empty list");
  for (const double flop : search.at_least) r.Within("at_least", flop, 1, 1e40, "FLOP");
  r.Allow("most_nodes", &search.most_nodes);
  r.Within("most_nodes", search.most_nodes, 1, kMostSearchedNodes);
  if (Find(root, "network.nodes") != nullptr) {
    r.Fail("at_least", "looks for the fewest nodes, but network.nodes is given; leave one out");
  }
  file.search = std::move(search);
  return r.Finish();
}

// Profile and keys of the tables: what a file says, or a [[scenario]] laid over it.
absl::Status ReadKeys(const TomlValue& root, ScenarioFile& file) {
  TableReader top(root, "");
  top.Allow("title", &file.title);
  if (top.Has("title")) top.Line("title", file.title, 200);
  std::string profile(NameOf(ProfileName::kGovernance));
  top.Allow("profile", &profile);
  const std::span<const std::string_view> names = Names(ProfileName{});
  top.OneOf("profile", profile, {names.begin(), names.end()});
  for (const std::string_view table : kTables) top.Skip(std::string(table));
  for (const std::string_view other : kOthers) top.Skip(std::string(other));
  const auto found = std::find(names.begin(), names.end(), profile);
  if (found != names.end()) file.profile = static_cast<ProfileName>(found - names.begin());
  file.draft = ProfileDraft(file.profile);
  for (const ScenarioKey& key : ScenarioKeys()) {
    if (key.table.empty()) ReadKey(top, key, root, file);
  }
  if (const absl::Status status = top.Finish(); !status.ok()) return status;
  for (const std::string_view table : kTables) {
    TableReader r(root, std::string(table));
    for (const ScenarioKey& key : ScenarioKeys()) {
      if (key.table == table) ReadKey(r, key, root, file);
    }
    if (r.Has("wan_mbps") && (r.Has("wan_up_mbps") || r.Has("wan_down_mbps"))) {
      r.Fail("wan_mbps", "is both directions; leave out wan_up_mbps and wan_down_mbps, or it");
    }
    if (const absl::Status status = r.Finish(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// One element of [[scenario]]: what it has of its own laid over what the file says for all.
absl::Status ReadNamed(const TomlValue& common, TomlValue own, ScenarioFile& file, Axis& names) {
  if (!std::holds_alternative<TomlValue::Table>(own.value)) {
    return absl::InvalidArgumentError(own.where + ": 'scenario' is wanted as [[scenario]]");
  }
  TableReader r = TableReader::Of(own, "scenario");
  std::string name;
  r.Require("name", &name);
  if (r.Has("name")) r.Line("name", name, 80);
  r.Check(name.find_first_of(",\"") == std::string::npos, "name", "has a comma or a quote");
  r.Check(std::find(names.labels.begin(), names.labels.end(), name) == names.labels.end(), "name",
          "stands in two of them");
  for (const std::string_view key : {"profile", "case", "published"}) r.Skip(std::string(key));
  for (const std::string_view table : kTables) r.Skip(std::string(table));
  for (const Axis& axis : file.axes) {
    if (Find(own, axis.key) == nullptr) continue;
    r.Fail(axis.key, "is a list for all scenarios; give it there, or to each scenario");
  }
  if (file.search && Find(own, "network.nodes") != nullptr) {
    r.Fail("network.nodes", "is given, but [search] looks for the fewest nodes; leave one out");
  }
  if (const absl::Status status = r.Finish(); !status.ok()) return status;
  for (const char* key : {"name", "published"}) Erase(own, key);
  TomlValue whole = common;
  Merge(whole, own);
  ScenarioFile one;
  if (const absl::Status status = ReadKeys(whole, one); !status.ok()) return status;
  if (!one.axes.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is a list; a [[scenario]] has one value of each key",
                    Find(whole, one.axes[0].key)->where, one.axes[0].key));
  }
  names.values.push_back(static_cast<double>(file.named.size()));
  names.labels.push_back(std::move(name));
  file.named.push_back(one.draft);
  return absl::OkStatus();
}

absl::Status ReadAllNamed(const TomlValue& root, ScenarioFile& file) {
  const TomlValue* const named = Find(root, "scenario");
  if (named == nullptr) return absl::OkStatus();
  const auto* const elements = std::get_if<TomlValue::Array>(&named->value);
  if (elements == nullptr || elements->empty() || elements->size() > kMostNamed) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'scenario' is wanted as 1 to {} tables, each under [[scenario]]",
                    named->where, kMostNamed));
  }
  TomlValue common = root;
  for (const std::string_view other : kOthers) Erase(common, other);
  for (const Axis& axis : file.axes) Erase(common, axis.key);
  Axis names{.key = "scenario", .values = {}, .labels = {}};
  for (const TomlValue& own : *elements) {
    if (const absl::Status status = ReadNamed(common, own, file, names); !status.ok())
      return status;
  }
  file.axes.insert(file.axes.begin(), std::move(names));
  return absl::OkStatus();
}

absl::Status TooMany(const ScenarioFile& file, size_t most, std::string_view of) {
  return absl::InvalidArgumentError(
      fmt::format("{}: the lists make more than {} {}; shorten one", file.where, most, of));
}

absl::Status ReadTable(const TomlValue& root, ScenarioFile& file) {
  const size_t named = std::max<size_t>(file.named.size(), 1);
  absl::StatusOr<PlanningTable> table = ReadPlanningTable(root, file.rows(), file.rows() / named);
  if (!table.ok()) return table.status();
  file.table = *std::move(table);
  if (file.table.any() && file.rows() > kMostTableRows) {
    return TooMany(file, kMostTableRows, "rows of a table with columns of its own");
  }
  return absl::OkStatus();
}

}  // namespace

size_t ScenarioFile::size() const {
  size_t product = 1;
  for (const Axis& axis : axes) {
    if (product > kMostScenarios) break;  // far enough to say so, and no overflow
    product *= axis.values.size();
  }
  return product;
}

absl::Status ScenarioFile::ForEach(
    const std::function<absl::Status(const Scenario&, const std::vector<size_t>&)>& use) const {
  return ForEachDraft([&](const Draft& current, const std::vector<size_t>& at) {
    const absl::StatusOr<Scenario> scenario = current.Build();
    if (scenario.ok()) return use(*scenario, at);
    return absl::Status(absl::InvalidArgumentError(
        fmt::format("{}: {}", where, std::string(scenario.status().message()))));
  });
}

absl::Status ScenarioFile::ForEachDraft(
    const std::function<absl::Status(const Draft&, const std::vector<size_t>&)>& use) const {
  std::vector<size_t> at(axes.size(), 0);
  Draft current;
  // All axes at their first value, over the draft of the [[scenario]] that is reached.
  const auto begin = [&] {
    current = named.empty() ? draft : named[at[0]];
    for (const Axis& axis : axes) {
      if (axis.set != nullptr) axis.set(current, axis.values.front());
    }
  };
  begin();
  for (size_t i = 0, n = size(); i < n; ++i) {
    if (const absl::Status status = use(current, at); !status.ok()) return status;
    for (size_t a = axes.size(); a-- > 0;) {
      at[a] = (at[a] + 1) % axes[a].values.size();
      if (axes[a].set == nullptr) {
        begin();
        break;
      }
      axes[a].set(current, axes[a].values[at[a]]);
      if (at[a] != 0) break;
    }
  }
  return absl::OkStatus();
}

namespace {

// A number that no formula takes would be believed.
absl::Status CheckReplicaForm(const ScenarioFile& file) {
  const auto& factors = file.assumptions.factors;
  const auto of_form = std::find_if(factors.begin(), factors.end(), [](const Assumption& a) {
    return a.name() == "replica" || a.name() == "replica_floor";
  });
  if (of_form == factors.end()) return absl::OkStatus();
  return file.ForEach([&](const Scenario& s, const std::vector<size_t>&) {
    const bool linear =
        s.switches.replica == Replica::kLinear || s.switches.replica == Replica::kLinearNoFloor;
    if (linear && !s.measured.eta_r) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: 'assume.{}' is of eta_r's linear forms, and {}; leave one out", file.where,
                    of_form->name(),
                    linear ? std::string("'assume.eta_r' stands in their place")
                           : fmt::format("switches.replica is {}", NameOf(s.switches.replica))));
  });
}

}  // namespace

absl::StatusOr<ScenarioFile> ReadScenarioFile(const TomlValue& root) {
  ScenarioFile file;
  file.where = root.where.substr(0, root.where.rfind(':'));
  for (const auto read : {ReadKeys, ReadSearch, ReadAllNamed}) {
    if (const absl::Status status = read(root, file); !status.ok()) return status;
  }
  if (const absl::Status status = ReadAssumptions(root, &file.assumptions); !status.ok()) {
    return status;
  }
  for (const Assumption& a : file.assumptions.factors) {
    a.Set(file.draft.scenario.measured, a.mid);
    for (Draft& named : file.named) a.Set(named.scenario.measured, a.mid);
  }
  if (file.assumptions.uncertain() && file.search) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a search counts nodes for one value of each factor, and [assume] has a "
                    "range; give a number there, or leave out [search]",
                    file.where));
  }
  if (file.size() > kMostScenarios) return TooMany(file, kMostScenarios, "scenarios");
  if (file.assumptions.uncertain() && file.size() > kMostUncertain) {
    return TooMany(file, kMostUncertain, "scenarios, too many to draw ranges of [assume] for");
  }
  if (const absl::Status fits = CheckReplicaForm(file); !fits.ok()) return fits;
  if (const absl::Status status = ReadTable(root, file); !status.ok()) return status;
  return file;
}

}  // namespace longhaul::simulator
