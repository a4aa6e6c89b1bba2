#include "planning/simulator/result_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/simulate.h"
#include "planning/simulator/switches.h"

namespace longhaul::simulator {
namespace {

using nlohmann::json;

constexpr Quantity kQuantities[] = {
    {"nodes", [](const ResultRow& r) { return static_cast<double>(r.scenario.nodes); }},
    {"devices_per_node",
     [](const ResultRow& r) { return static_cast<double>(r.scenario.devices); }},
    {"h100_equivalents", [](const ResultRow& r) { return r.outcome.h100_equivalents; }},
    {"parameters", [](const ResultRow& r) { return r.outcome.parameters; }},
    {"active_parameters", [](const ResultRow& r) { return r.outcome.active_parameters; }},
    {"stages", [](const ResultRow& r) { return static_cast<double>(r.outcome.stages); }},
    {"groups", [](const ResultRow& r) { return static_cast<double>(r.outcome.groups); }},
    {"payload_bits", [](const ResultRow& r) { return r.outcome.payload_bits; }},
    {"step_seconds", [](const ResultRow& r) { return r.outcome.step_time; }},
    {"expert_overhead", [](const ResultRow& r) { return r.outcome.overhead; }},
    {"bubble", [](const ResultRow& r) { return r.outcome.bubble; }},
    {"sync_seconds", [](const ResultRow& r) { return r.outcome.sync_time; }},
    {"outer_seconds", [](const ResultRow& r) { return r.outcome.outer_time; }},
    {"inner_steps", [](const ResultRow& r) { return static_cast<double>(r.outcome.inner_steps); }},
    {"regional_cycles",
     [](const ResultRow& r) { return static_cast<double>(r.outcome.regional_cycles); }},
    {"effective_steps", [](const ResultRow& r) { return r.outcome.effective_steps; }},
    {"sync_rate_bit_s", [](const ResultRow& r) { return MeanSyncRate(r.outcome); }},
    {"eta_h", [](const ResultRow& r) { return r.outcome.eta_h; }},
    {"eta_c", [](const ResultRow& r) { return r.outcome.eta_c; }},
    {"eta_r", [](const ResultRow& r) { return r.outcome.eta_r; }},
    {"eta_act", [](const ResultRow& r) { return r.outcome.eta_act; }},
    {"eta", [](const ResultRow& r) { return r.outcome.eta; }},
    {"c_raw", [](const ResultRow& r) { return r.outcome.raw; }},
    {"c_local", [](const ResultRow& r) { return r.outcome.local; }},
    {"chi", [](const ResultRow& r) { return r.outcome.chi; }},
    {"c_quality", [](const ResultRow& r) { return r.outcome.quality; }},
    {"tokens", [](const ResultRow& r) { return r.outcome.tokens; }},
    {"tokens_over_allocation", [](const ResultRow& r) { return r.outcome.overtraining; }},
    {"global_mfu", [](const ResultRow& r) { return GlobalMfu(r.scenario, r.outcome); }},
    {"cost_usd", [](const ResultRow& r) { return r.outcome.cost; }},
};

std::string StepsText(const Outcome& out) {
  if (out.mode != Mode::kHierarchical) return fmt::format("{}", out.inner_steps);
  return fmt::format("{} x {} -> {:.2f}", out.inner_steps, out.regional_cycles,
                     out.effective_steps);
}

bool HasAxis(const ScenarioFile& file, std::string_view key) {
  for (const Axis& axis : file.axes) {
    if (axis.key == key) return true;
  }
  return false;
}

bool CountsChi(const ScenarioFile& file) {
  return file.draft.scenario.switches.chi || HasAxis(file, "switches.chi") ||
         std::any_of(file.named.begin(), file.named.end(),
                     [](const Draft& named) { return named.scenario.switches.chi; });
}

Table EmptyTable(const ScenarioFile& file) {
  Table table{.columns = AxisColumns(file)};
  if (file.search) table.columns.emplace_back(file.search->target_name + " >=");
  if (!HasAxis(file, "network.nodes")) table.columns.emplace_back("nodes");
  table.AddColumns(
      ColumnsOf("mode | P, B | S x G | H | eta_H | eta_c | eta_r | eta_act | eta | C_local"));
  if (CountsChi(file)) table.AddColumns(ColumnsOf("chi | C_quality"));
  table.AddColumns(ColumnsOf("D/(rP) | cost, M$"));
  return table;
}

// Of each [[scenario]] what is another profile, case, form or switch than the file's own.
std::string NamedText(const ScenarioFile& file) {
  const Scenario& common = file.draft.scenario;
  std::string text;
  for (size_t i = 0; i < file.named.size(); ++i) {
    const Scenario& s = file.named[i].scenario;
    const std::string of = fmt::format("scenario {}: ", file.axes[0].labels[i]);
    if (s.profile != common.profile) {
      text += fmt::format("{}profile {}, replica form {}\n", of, NameOf(s.profile),
                          NameOf(s.switches.replica));
    }
    if (s.expected != common.expected) text += fmt::format("{}case {}\n", of, NameOf(s.expected));
    if (s.switches == common.switches) continue;
    for (const SwitchDifference& d : Differences(s)) {
      text += fmt::format("{}switch {} = {} (profile: {})\n", of, d.name, d.value, d.of_profile);
    }
  }
  return text;
}

json DifferencesJson(const Scenario& s) {
  json differs = json::array();
  for (const SwitchDifference& d : Differences(s)) {
    differs.push_back({{"switch", d.name}, {"value", d.value}, {"profile", d.of_profile}});
  }
  return differs;
}

}  // namespace

std::span<const Quantity> Quantities() { return kQuantities; }

std::vector<Column> AxisColumns(const ScenarioFile& file) {
  std::vector<Column> columns;
  for (const Axis& axis : file.axes) columns.emplace_back(axis.key, std::vector{axis.key});
  return columns;
}

std::vector<Cell> AxisCells(const ScenarioFile& file, const std::vector<size_t>& at) {
  std::vector<Cell> cells;
  for (size_t a = 0; a < file.axes.size(); ++a) cells.emplace_back(file.axes[a].labels[at[a]]);
  return cells;
}

json AxisJson(const ScenarioFile& file, const std::vector<size_t>& at) {
  json out = json::object();
  for (size_t a = 0; a < file.axes.size(); ++a) out[file.axes[a].key] = file.axes[a].labels[at[a]];
  return out;
}

std::string PlaceText(const ScenarioFile& file, const std::vector<size_t>& at) {
  std::string name;
  for (size_t a = 0; a < file.axes.size(); ++a) {
    const bool named = file.axes[a].set == nullptr;  // of [[scenario]]
    name += (name.empty() ? "" : ", ") + (named ? "" : file.axes[a].key + " ") +
            file.axes[a].labels[at[a]];
  }
  return name;
}

std::string NameOf(const ScenarioFile& file, const std::vector<size_t>& at) {
  const std::string name = PlaceText(file, at);
  return name.empty() ? "the scenario" : name;
}

absl::Status RunScenarios(const ScenarioFile& file,
                          const std::function<void(const ResultRow&)>& use) {
  ResultRow row;
  return file.ForEach([&](const Scenario& scenario, const std::vector<size_t>& at) {
    row.at = at;
    row.scenario = scenario;
    if (!file.search) {
      row.outcome = Simulate(row.scenario);
      use(row);
      return absl::OkStatus();
    }
    for (const double at_least : file.search->at_least) {
      const std::optional<int64_t> nodes =
          FewestNodes(row.scenario, file.search->target, at_least, file.search->most_nodes);
      row.at_least = at_least;
      row.found = nodes.has_value();
      row.scenario.nodes = nodes.value_or(file.search->most_nodes);
      row.outcome = Simulate(row.scenario);
      use(row);
    }
    return absl::OkStatus();
  });
}

std::string ProfileText(const ScenarioFile& file) {
  const Scenario& s = file.draft.scenario;
  const auto replica = HasAxis(file, "switches.replica") ? std::string("as listed")
                                                         : std::string(NameOf(s.switches.replica));
  std::string text = fmt::format("{}profile {}, replica form {}, case {}\n",
                                 file.title.empty() ? "" : file.title + "\n", NameOf(file.profile),
                                 replica, HasAxis(file, "case") ? "as listed" : NameOf(s.expected));
  for (const SwitchDifference& d : Differences(s)) {
    text += fmt::format("switch {} = {} (profile: {})\n", d.name, d.value, d.of_profile);
  }
  text += NamedText(file);
  for (const Axis& axis : file.axes) {
    if (axis.key.starts_with("switches.")) {
      text += fmt::format("switch {} differs from row to row\n", axis.key.substr(9));
    }
  }
  return text + file.assumptions.Text();
}

ResultText::ResultText(const ScenarioFile& file) : file_(file), table_(EmptyTable(file)) {}

void ResultText::Add(const ResultRow& row) {
  for (std::string& warning : WarningTexts(row.scenario, row.outcome)) {
    if (warnings_.size() < 20) warnings_.insert(std::move(warning));
  }
  if (++rows_ > kMostLines) return;
  const Outcome& out = row.outcome;
  std::vector<Cell> cells = AxisCells(file_, row.at);
  if (file_.search) cells.emplace_back(row.at_least, "{:g}");
  if (!row.found) {
    cells.push_back(fmt::format("> {}", file_.search->most_nodes));
    return table_.Add(std::move(cells));
  }
  if (!HasAxis(file_, "network.nodes")) cells.push_back(row.scenario.nodes);
  const auto groups = out.mode == Mode::kFlat ? row.scenario.nodes : out.groups;
  cells.insert(cells.end(),
               {NameOf(out.mode), Cell(out.parameters / 1e9, "{:.4g}"),
                fmt::format("{} x {}", out.stages, groups), StepsText(out),
                Cell(out.eta_h, "{:.3f}"), Cell(out.eta_c, "{:.3f}"), Cell(out.eta_r, "{:.3f}"),
                Cell(out.eta_act, "{:.3f}"), Cell(out.eta, "{:.3f}"), Cell(out.local, "{:.3e}")});
  if (CountsChi(file_)) {
    cells.insert(cells.end(), {Cell(out.chi, "{:.3f}"), Cell(out.quality, "{:.3e}")});
  }
  cells.insert(cells.end(), {Cell(out.overtraining, "{:.2f}"), Cell(out.cost / 1e6, "{:.1f}")});
  table_.Add(std::move(cells));
}

std::string ResultText::Text() const {
  std::string text = GridText(table_);
  if (rows_ > kMostLines) {
    text += fmt::format("... and {} rows more; --csv FILE holds all\n", rows_ - kMostLines);
  }
  for (const std::string& warning : warnings_) text += "warning: " + warning + "\n";
  return text;
}

std::string CsvHeader(const ScenarioFile& file) {
  std::string line;
  for (const Axis& axis : file.axes) line += axis.key + ",";
  if (file.search) line += "at_least,found,";
  line += "profile,mode";
  for (const Quantity& quantity : kQuantities) line += fmt::format(",{}", quantity.name);
  return line + "\n";
}

std::string CsvLine(const ScenarioFile& file, const ResultRow& row) {
  std::string line;
  for (size_t a = 0; a < file.axes.size(); ++a) line += file.axes[a].labels[row.at[a]] + ",";
  if (file.search) line += fmt::format("{},{},", row.at_least, row.found ? 1 : 0);
  line += fmt::format("{},{}", NameOf(row.scenario.profile), NameOf(row.outcome.mode));
  for (const Quantity& quantity : kQuantities) {
    fmt::format_to(std::back_inserter(line), ",{}", quantity.get(row));
  }
  return line + "\n";
}

std::string JsonHead(const ScenarioFile& file) {
  json switches = json::object();
  for (const SwitchSetting& s : Settings(file.draft.scenario.switches)) switches[s.name] = s.value;
  json assume = json::object();
  for (const Assumption& a : file.assumptions.factors) {
    assume[a.name()] = {{"low", a.low}, {"mid", a.mid}, {"high", a.high}};
  }
  json head = {{"schema", "longhaul.simulate/1"},
               {"title", file.title},
               {"profile", NameOf(file.profile)},
               {"case", NameOf(file.draft.scenario.expected)},
               {"switches", switches},
               {"differs", DifferencesJson(file.draft.scenario)}};
  for (size_t i = 0; i < file.named.size(); ++i) {
    const Scenario& s = file.named[i].scenario;
    head["scenarios"].push_back({{"name", file.axes[0].labels[i]},
                                 {"profile", NameOf(s.profile)},
                                 {"case", NameOf(s.expected)},
                                 {"differs", DifferencesJson(s)}});
  }
  if (!file.assumptions.factors.empty()) head["assume"] = std::move(assume);
  std::string text = head.dump();
  text.pop_back();
  return text + ",\"rows\":[";
}

std::string JsonRow(const ScenarioFile& file, const ResultRow& row) {
  json out = {{"mode", NameOf(row.outcome.mode)}};
  if (!file.axes.empty()) out["at"] = AxisJson(file, row.at);
  if (file.search) {
    out["at_least"] = row.at_least;
    out["found"] = row.found;
  }
  for (const Quantity& quantity : kQuantities) out[quantity.name] = quantity.get(row);
  const std::vector<std::string> warnings = WarningTexts(row.scenario, row.outcome);
  if (!warnings.empty()) out["warnings"] = warnings;
  return out.dump();
}

std::string JsonTail(const std::string& more) {
  return "]" + (more.empty() ? "" : "," + more) + "}";
}

}  // namespace longhaul::simulator
