#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/table_json.h"
#include "planning/scale/what_if.h"

namespace longhaul::scale {
namespace {

using nlohmann::json;

std::string WithInterval(const Measured& m, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", m.value * factor, digits);
  if (m.interval) {
    text += fmt::format(" [{:.{}f}, {:.{}f}]", m.interval->low * factor, digits,
                        m.interval->high * factor, digits);
  }
  return text;
}

double MeanOver(const Point& p, double ScaleResult::*field) {
  double sum = 0;
  for (const ScaleResult& r : p.seeds) sum += r.*field;
  return sum / static_cast<double>(p.seeds.size());
}

json JsonOf(const Measured& m) {
  json j{{"value", m.value}};
  if (m.interval) {
    j["low"] = m.interval->low;
    j["high"] = m.interval->high;
    j["level"] = m.interval->level;
  }
  return j;
}

// Of each seed; with no axes without the point's place.
Table SeedsTable(const std::vector<Axis>& axes, std::span<const Point> points) {
  Table table;
  for (const Axis& axis : axes) table.columns.emplace_back(std::nullopt, std::vector{axis.key});
  table.AddColumns(ForPrograms(
      "seed | step_s | rounds | faults | seconds | round_mean_s | round_p50_s | round_p95_s | "
      "round_max_s | tokens_counted | tokens_lost | goodput_tokens_per_s | ideal_tokens_per_s | "
      "utilisation | exchange_s | ended_early"));
  for (const Point& p : points) {
    for (const ScaleResult& r : p.seeds) {
      std::vector<Cell> cells(p.at.begin(), p.at.begin() + static_cast<ptrdiff_t>(axes.size()));
      cells.insert(cells.end(),
                   {r.seed, p.step_s, r.rounds, r.faults, r.seconds, r.round_mean_s, r.round_p50_s,
                    r.round_p95_s, r.round_max_s, r.tokens_counted, r.tokens_lost, r.goodput(),
                    p.ideal_goodput, r.utilisation, r.exchange_s, !r.ended_early.empty()});
      table.Add(std::move(cells));
    }
  }
  return table;
}

json SeedsJson(const Point& p) {
  json out = JsonRows(SeedsTable({}, {&p, 1}));
  for (size_t i = 0; i < out.size(); ++i) {
    const ScaleResult& r = p.seeds[i];
    for (const char* key : {"step_s", "ideal_tokens_per_s", "ended_early"}) out[i].erase(key);
    if (!r.ended_early.empty()) out[i]["ended_early"] = r.ended_early;
    for (const RoundResult& round : r.by_round) {
      out[i]["by_round"].push_back({{"end_s", round.end_s}, {"members", round.members}});
    }
  }
  return out;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Remark(const Point& p) {
  const auto early = std::count_if(p.seeds.begin(), p.seeds.end(),
                                   [](const ScaleResult& r) { return !r.ended_early.empty(); });
  if (early == 0) return "";
  const auto first = std::find_if(p.seeds.begin(), p.seeds.end(),
                                  [](const ScaleResult& r) { return !r.ended_early.empty(); });
  return fmt::format("{} of {} seeds ended early: {}", early, p.seeds.size(), first->ended_early);
}

// By the values of all axes but the first: where each point is on that, logarithmic and ascending.
using Lines = std::map<std::string, std::vector<std::pair<double, const Point*>>>;
absl::StatusOr<Lines> LinesOf(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  Lines lines;
  for (const Point& p : points) {
    char* end = nullptr;
    const double x = std::strtod(p.at[0].c_str(), &end);
    if (end == p.at[0].c_str() || *end != 0 || !(x > 0)) {
      return absl::FailedPreconditionError(fmt::format(
          "a plot's x axis, {}, wants positive numbers; got '{}'", axes[0].key, p.at[0]));
    }
    std::string name;
    for (size_t i = 1; i < axes.size(); ++i) {
      name += fmt::format("{}{} {}", i > 1 ? ", " : "", axes[i].key, p.at[i]);
    }
    lines[name].emplace_back(std::log(x), &p);
  }
  for (auto& [name, line] : lines) std::sort(line.begin(), line.end());
  return lines;
}

}  // namespace

std::string WhatIfText(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  Table table;
  for (const Axis& axis : axes) table.columns.push_back(axis.key);
  table.AddColumns(ColumnsOf(
      "step s | round s | p95 | days | goodput tokens/s | of ideal % | lost % | busy % | faults"));
  std::string remarks;
  for (const Point& p : points) {
    std::vector<Cell> row(p.at.begin(), p.at.end());
    double faults = 0;
    for (const ScaleResult& r : p.seeds) faults += static_cast<double>(r.faults);
    row.insert(row.end(),
               {Cell(p.step_s, "{:.4g}"), Cell(MeanOver(p, &ScaleResult::round_mean_s), "{:.5g}"),
                Cell(MeanOver(p, &ScaleResult::round_p95_s), "{:.5g}"),
                Cell(p.seconds.value / 86400, "{:.3f}"), WithInterval(p.goodput, 1, 0),
                WithInterval(p.goodput, 100 / p.ideal_goodput, 1),
                WithInterval(p.lost_share, 100, 2), WithInterval(p.utilisation, 100, 1),
                Cell(faults / static_cast<double>(p.seeds.size()), "{:.0f}")});
    table.Add(std::move(row));
    if (const std::string remark = Remark(p); !remark.empty()) {
      remarks += fmt::format("{}: {}\n", fmt::join(p.at, ", "), remark);
    }
  }
  return GridText(table) + remarks;
}

std::string WhatIfCsv(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  return Csv(CsvRowsOf(SeedsTable(axes, points)));
}

std::string WhatIfJson(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  json document{{"schema", "longhaul.scale/1"}, {"points", json::array()}};
  for (const Point& p : points) {
    json j{{"step_s", p.step_s},
           {"ideal_tokens_per_s", p.ideal_goodput},
           {"goodput_tokens_per_s", JsonOf(p.goodput)},
           {"seconds", JsonOf(p.seconds)},
           {"lost_share", JsonOf(p.lost_share)},
           {"utilisation", JsonOf(p.utilisation)},
           {"at", json::object()},
           {"seeds", SeedsJson(p)}};
    for (size_t i = 0; i < axes.size(); ++i) j["at"][axes[i].key] = p.at[i];
    document["points"].push_back(std::move(j));
  }
  return document.dump(1) + "\n";
}

absl::StatusOr<std::string> WhatIfSvg(const std::vector<Axis>& axes,
                                      const std::vector<Point>& points) {
  constexpr double kWidth = 640, kHeight = 400, kLeft = 70, kBottom = 50, kTop = 30, kRight = 160;
  if (axes.empty()) {
    return absl::FailedPreconditionError("a plot needs a --sweep whose values are its x axis");
  }
  const auto lines = LinesOf(axes, points);
  if (!lines.ok()) return lines.status();
  double least = 1e300, most = -1e300;
  for (const auto& [name, line] : *lines) {
    least = std::min(least, line.front().first);
    most = std::max(most, line.back().first);
  }
  const double span = most > least ? most - least : 1;
  const auto px = [&](double x) { return kLeft + (x - least) / span * (kWidth - kLeft - kRight); };
  const auto py = [&](double share) {
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\"><rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  for (int tick = 0; tick <= 10; tick += 2) {
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        kLeft, py(tick / 10.0), kWidth - kRight, kLeft - 6, py(tick / 10.0) + 4, tick * 10);
  }
  for (const std::string& value : axes[0].values) {
    const double x = px(std::log(std::strtod(value.c_str(), nullptr)));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x,
                       kHeight - kBottom + 18, Escaped(value));
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{} (log)</text><text x=\"{:.1f}\" "
      "y=\"18\">goodput, % of ideal; bars: 95 % over seeds</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 12, Escaped(axes[0].key), kLeft);
  const char* colours[] = {"#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#444444"};
  size_t index = 0;
  for (const auto& [name, line] : *lines) {
    const char* colour = colours[index % std::size(colours)];
    std::string path;
    for (const auto& [x, p] : line) {
      const double scale = 1 / p->ideal_goodput;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px(x),
                          py(p->goodput.value * scale));
      if (!p->goodput.interval) continue;
      svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\"/>\n", px(x),
                         py(p->goodput.interval->low * scale),
                         py(p->goodput.interval->high * scale), colour);
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                       colour);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" font-size=\"10\">{}</text>\n",
                       kWidth - kRight + 8, kTop + 14.0 * static_cast<double>(++index), colour,
                       Escaped(name));
  }
  return svg + "</svg>\n";
}

}  // namespace longhaul::scale
