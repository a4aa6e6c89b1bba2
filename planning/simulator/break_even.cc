#include "planning/simulator/break_even.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "netem/topology/table_reader.h"
#include "planning/simulator/simulate.h"
#include "planning/simulator/table_columns.h"

namespace longhaul::simulator {
namespace {

constexpr double kResolution = 1e-9;  // of the range

const AssumptionKey* FindFactor(std::string_view name) {
  for (const AssumptionKey& key : AssumptionKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const ScenarioKey* FindNumber(std::string_view name) {
  for (const ScenarioKey& key : ScenarioKeys()) {
    if (key.kind == ScenarioKey::Kind::kReal && fmt::format("{}.{}", key.table, key.name) == name) {
      return &key;
    }
  }
  return nullptr;
}

void SetFactor(std::string_view factor, double value, Draft& draft) {
  if (const AssumptionKey* const assumed = FindFactor(factor)) {
    return assumed->set(draft.scenario.measured, value);
  }
  FindNumber(factor)->set(draft, value);  // one of the two, as the reader has checked
}

// The target of a draft with the factor at `value`; nothing where the scenario cannot be put together.
absl::StatusOr<double> TargetOf(Draft draft, const BreakEven& search, double value) {
  SetFactor(search.factor, value, draft);
  const absl::StatusOr<Scenario> scenario = draft.Build();
  if (!scenario.ok()) return scenario.status();
  ResultRow row;
  row.scenario = *scenario;
  row.outcome = Simulate(*scenario);
  return FindTableColumn(search.target)->Get(row, {.threshold = 1, .best = row.outcome.local});
}

// The draft of the [[scenario]] that is to be beaten, with the first value of every list.
Draft Rival(const ScenarioFile& file, const BreakEven& search) {
  const auto& names = file.axes[0].labels;
  const auto at =
      static_cast<size_t>(std::find(names.begin(), names.end(), search.beats) - names.begin());
  return file.named[at];
}

void CheckRange(TableReader& r, const BreakEven& search) {
  double least = 0, most = 0;
  if (const AssumptionKey* const assumed = FindFactor(search.factor)) {
    least = assumed->least;
    most = assumed->most;
  } else if (const ScenarioKey* const key = FindNumber(search.factor)) {
    least = key->least;
    most = key->most;
  } else {
    std::string known;
    for (const AssumptionKey& key : AssumptionKeys()) known += std::string(key.name) + ", ";
    return r.Fail("factor",
                  fmt::format("is '{}'; want one of {}or a key that holds a number, such as "
                              "network.wan_mbps",
                              Shown(search.factor), known));
  }
  r.Within("from", search.from, least, most);
  r.Within("to", search.to, least, most);
  r.Check(search.from < search.to, "from", "is not below 'to'");
}

double Margin(double target, double bar) {
  return bar > 0 ? target / bar : std::numeric_limits<double>::infinity();
}

std::string Verdict(const BreakEvenRow& row) {
  if (row.changes.empty()) return row.at_from ? "everywhere" : "nowhere";
  std::string text = row.at_from ? "up to " : "from ";
  bool holds = row.at_from;
  for (size_t i = 0; i < row.changes.size(); ++i) {
    if (i > 0) text += holds ? " to " : ", from ";
    text += fmt::format("{:.4g}", row.changes[i]);
    holds = !holds;
  }
  return text;
}

std::string Sentence(const BreakEven& search) {
  const std::string bar = search.bar ? fmt::format("{:g}", *search.bar) : "that of " + search.beats;
  return fmt::format("{} at least {}, as {} goes from {:g} to {:g}", search.target, bar,
                     search.factor, search.from, search.to);
}

}  // namespace

std::vector<double> ChangesOf(const std::function<bool(double)>& holds, double from, double to) {
  std::vector<double> changes;
  double low = from;
  bool at_low = holds(low);
  for (int step = 1; step <= kBreakEvenSteps; ++step) {
    const double high = step == kBreakEvenSteps ? to : from + (to - from) * step / kBreakEvenSteps;
    const bool at_high = holds(high);
    if (at_high != at_low) {
      double inside = low, outside = high;  // truth as at low; as at high
      while (outside - inside > kResolution * (to - from)) {
        const double middle = inside + (outside - inside) / 2;
        (holds(middle) == at_low ? inside : outside) = middle;
      }
      changes.push_back(outside);
    }
    low = high;
    at_low = at_high;
  }
  return changes;
}

absl::StatusOr<std::optional<BreakEven>> ReadBreakEven(const TomlValue& root,
                                                       const ScenarioFile& file) {
  TableReader r(root, "break_even");
  if (!r.present()) return std::nullopt;
  BreakEven search;
  r.Require("factor", &search.factor);
  r.Require("from", &search.from);
  r.Require("to", &search.to);
  r.Require("target", &search.target);
  r.Allow("at_least", &search.bar);
  r.Allow("beats", &search.beats);
  if (const absl::Status s = r.Finish(); !s.ok()) return s;
  CheckRange(r, search);
  for (const Axis& axis : file.axes) {
    r.Check(axis.key != search.factor, "factor", "is a list in this file; leave one of them out");
  }
  for (const std::string_view of_table : {"times_threshold", "percent_of_best"}) {
    r.Check(search.target != of_table, "target", "is of a whole table; take c_local");
  }
  if (FindTableColumn(search.target) == nullptr) {
    r.Fail("target",
           fmt::format("is '{}'; want one of {}", Shown(search.target), TableColumnNames()));
  }
  r.Check(search.bar.has_value() == search.beats.empty(), "at_least",
          "or 'beats' is wanted: a number, or the name of a [[scenario]]; one of the two");
  if (!search.beats.empty()) {
    const bool known =
        !file.named.empty() &&
        std::count(file.axes[0].labels.begin(), file.axes[0].labels.end(), search.beats) > 0;
    r.Check(known, "beats", "names no [[scenario]] of this file");
  }
  r.Check(!file.search, "factor", "is sought, and [search] counts nodes; leave one of them out");
  r.Check(file.size() <= kMostBreakEven, "factor",
          fmt::format("is sought in more than {} scenarios; shorten a list", kMostBreakEven));
  if (!r.status().ok()) return r.status();
  return search;
}

absl::StatusOr<std::vector<BreakEvenRow>> FindBreakEven(const ScenarioFile& file,
                                                        const BreakEven& search) {
  std::vector<BreakEvenRow> rows;
  const absl::Status status =
      file.ForEachDraft([&](const Draft& draft, const std::vector<size_t>& at) {
        absl::Status failed;
        const auto pair = [&](double value) {
          const auto target = TargetOf(draft, search, value);
          const auto bar = search.bar ? absl::StatusOr<double>(*search.bar)
                                      : TargetOf(Rival(file, search), search, value);
          if (!target.ok()) failed = target.status();
          if (!bar.ok()) failed = bar.status();
          return failed.ok() ? std::pair(*target, *bar) : std::pair(0.0, 1.0);
        };
        const auto holds = [&](double value) {
          const auto [target, bar] = pair(value);
          return target >= bar;
        };
        const auto [target_from, bar_from] = pair(search.from);
        const auto [target_to, bar_to] = pair(search.to);
        rows.push_back({.at = at,
                        .at_from = target_from >= bar_from,
                        .changes = ChangesOf(holds, search.from, search.to),
                        .margin_from = Margin(target_from, bar_from),
                        .margin_to = Margin(target_to, bar_to)});
        return failed.ok() ? absl::OkStatus()
                           : absl::InvalidArgumentError(
                                 fmt::format("{}: {}", file.where, std::string(failed.message())));
      });
  if (!status.ok()) return status;
  return rows;
}

std::string BreakEvenText(const ScenarioFile& file, const BreakEven& search,
                          const std::vector<BreakEvenRow>& rows) {
  Table table{.columns = AxisColumns(file)};
  table.AddColumns(
      ColumnsOf(fmt::format("holds | margin at {:g} | margin at {:g}", search.from, search.to)));
  for (size_t i = 0; i < rows.size() && i < ResultText::kMostLines; ++i) {
    std::vector<Cell> cells = AxisCells(file, rows[i].at);
    cells.insert(
        cells.end(),
        {Verdict(rows[i]), {rows[i].margin_from, "{:.4g}"}, {rows[i].margin_to, "{:.4g}"}});
    table.Add(std::move(cells));
  }
  std::string text = fmt::format("Break-even: {}\n{}", Sentence(search), GridText(table));
  if (rows.size() > ResultText::kMostLines) {
    text += fmt::format("... and {} rows more; --break-even FILE holds all\n",
                        rows.size() - ResultText::kMostLines);
  }
  return text;
}

std::string BreakEvenCsv(const ScenarioFile& file, const BreakEven& search,
                         const std::vector<BreakEvenRow>& rows) {
  Table table{.columns = AxisColumns(file)};
  table.AddColumns(ForPrograms(
      "target | factor | from | to | holds_at_from | margin_from | margin_to | changes"));
  for (const BreakEvenRow& row : rows) {
    std::vector<Cell> cells = AxisCells(file, row.at);
    cells.insert(cells.end(),
                 {search.target, search.factor, search.from, search.to, row.at_from,
                  row.margin_from, row.margin_to, fmt::format("{}", fmt::join(row.changes, " "))});
    table.Add(std::move(cells));
  }
  return Csv(CsvRowsOf(table));
}

std::string BreakEvenJson(const ScenarioFile& file, const BreakEven& search,
                          const std::vector<BreakEvenRow>& rows) {
  using nlohmann::json;
  json out = {{"target", search.target},
              {"factor", search.factor},
              {"from", search.from},
              {"to", search.to},
              {"rows", json::array()}};
  if (search.bar) out["at_least"] = *search.bar;
  if (!search.bar) out["beats"] = search.beats;
  for (const BreakEvenRow& row : rows) {
    out["rows"].push_back({{"at", AxisJson(file, row.at)},
                           {"holds_at_from", row.at_from},
                           {"changes", row.changes},
                           {"margin_from", row.margin_from},
                           {"margin_to", row.margin_to}});
  }
  return out.dump();
}

}  // namespace longhaul::simulator
