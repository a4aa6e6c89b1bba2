// What comes of ranges in [assume], as text, CSV and JSON.
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/uncertainty.h"

namespace longhaul::simulator {
namespace {

using nlohmann::json;

constexpr size_t kMostShown = 10;
constexpr double kBar = 30;  // characters of the longest

std::string Axes(const ScenarioFile& file, const std::vector<size_t>& at) {
  std::string line;
  for (size_t a = 0; a < file.axes.size(); ++a) line += file.axes[a].labels[at[a]] + ",";
  return line;
}

std::string AxisHeader(const ScenarioFile& file) {
  std::string line;
  for (const Axis& axis : file.axes) line += axis.key + ",";
  return line;
}

std::string SpreadTable(const UncertainRow& row) {
  TextTable table({"quantity", "at the middle", "median", "90 % interval"});
  bool any = false;
  for (const Spread& s : row.uncertainty.spreads) {
    if (s.low == s.high) continue;
    any = true;
    table.Add({s.quantity, fmt::format("{:.5g}", s.mid), fmt::format("{:.5g}", s.median),
               fmt::format("[{:.5g}, {:.5g}]", s.low, s.high)});
  }
  return any ? table.Text() : "nothing that is reported moves with these factors\n";
}

std::string TornadoTable(const UncertainRow& row, std::string_view quantity) {
  TextTable table({std::string(quantity), "from", "to", "at low", "at high", "moves", "bar"});
  double most = 0;
  for (const Lever& l : row.uncertainty.levers) {
    if (l.quantity != quantity) continue;
    if (most == 0) most = l.moves();
    table.Add({l.factor, fmt::format("{:.5g}", l.factor_low), fmt::format("{:.5g}", l.factor_high),
               fmt::format("{:.4g}", l.at_low), fmt::format("{:.4g}", l.at_high),
               fmt::format("{:.3g}", l.moves()),
               std::string(static_cast<size_t>(std::ceil(kBar * l.moves() / most)), '#')});
  }
  return most > 0 ? "one factor at a time, the others at their middle:\n" + table.Text() : "";
}

}  // namespace

std::string UncertaintyText(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  std::string text = fmt::format(
      "Ranges of [assume]: triangular between low and high with the peak at the middle, "
      "independent;\n{} draws, seed {}.\n",
      kUncertainDraws, file.assumptions.seed);
  for (size_t i = 0; i < rows.size() && i < kMostShown; ++i) {
    text += "\n" + rows[i].name + "\n" + SpreadTable(rows[i]) + TornadoTable(rows[i], "c_local");
    if (file.draft.scenario.switches.chi) text += TornadoTable(rows[i], "c_quality");
  }
  if (rows.size() > kMostShown) {
    text += fmt::format("... and {} scenarios more; --spread FILE and --tornado FILE hold all\n",
                        rows.size() - kMostShown);
  }
  return text;
}

std::string SpreadCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  std::string out = AxisHeader(file) + "quantity,middle,p05,p25,median,p75,p95\n";
  for (const UncertainRow& row : rows) {
    const std::string axes = Axes(file, row.at);
    for (const Spread& s : row.uncertainty.spreads) {
      out += fmt::format("{}{},{},{},{},{},{},{}\n", axes, s.quantity, s.mid, s.low,
                         s.lower_quartile, s.median, s.upper_quartile, s.high);
    }
  }
  return out;
}

std::string TornadoCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  std::string out =
      AxisHeader(file) + "quantity,factor,factor_low,factor_high,at_low,at_middle,at_high,moves\n";
  for (const UncertainRow& row : rows) {
    const std::string axes = Axes(file, row.at);
    for (const Lever& l : row.uncertainty.levers) {
      out += fmt::format("{}{},{},{},{},{},{},{},{}\n", axes, l.quantity, l.factor, l.factor_low,
                         l.factor_high, l.at_low, l.at_mid, l.at_high, l.moves());
    }
  }
  return out;
}

std::string UncertaintyJson(const ScenarioFile& file, const std::vector<UncertainRow>& rows) {
  json out = {{"seed", file.assumptions.seed},
              {"draws", kUncertainDraws},
              {"distribution", "triangular"},
              {"scenarios", json::array()}};
  for (const UncertainRow& row : rows) {
    json scenario = {
        {"at", json::object()}, {"spreads", json::array()}, {"tornado", json::array()}};
    for (size_t a = 0; a < file.axes.size(); ++a) {
      scenario["at"][file.axes[a].key] = file.axes[a].labels[row.at[a]];
    }
    for (const Spread& s : row.uncertainty.spreads) {
      scenario["spreads"].push_back({{"quantity", s.quantity},
                                     {"middle", s.mid},
                                     {"p05", s.low},
                                     {"p25", s.lower_quartile},
                                     {"median", s.median},
                                     {"p75", s.upper_quartile},
                                     {"p95", s.high}});
    }
    for (const Lever& l : row.uncertainty.levers) {
      scenario["tornado"].push_back({{"quantity", l.quantity},
                                     {"factor", l.factor},
                                     {"factor_low", l.factor_low},
                                     {"factor_high", l.factor_high},
                                     {"at_low", l.at_low},
                                     {"at_middle", l.at_mid},
                                     {"at_high", l.at_high},
                                     {"moves", l.moves()}});
    }
    out["scenarios"].push_back(std::move(scenario));
  }
  return out.dump();
}

}  // namespace longhaul::simulator
