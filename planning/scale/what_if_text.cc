#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/text_table.h"
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

json JsonOf(const ScaleResult& r) {
  json j{{"seed", r.seed},
         {"rounds", r.rounds},
         {"faults", r.faults},
         {"seconds", r.seconds},
         {"tokens_counted", r.tokens_counted},
         {"tokens_lost", r.tokens_lost},
         {"goodput_tokens_per_s", r.goodput()},
         {"utilisation", r.utilisation},
         {"exchange_s", r.exchange_s},
         {"round_mean_s", r.round_mean_s},
         {"round_p50_s", r.round_p50_s},
         {"round_p95_s", r.round_p95_s},
         {"round_max_s", r.round_max_s}};
  if (!r.ended_early.empty()) j["ended_early"] = r.ended_early;
  for (const RoundResult& round : r.by_round) {
    j["by_round"].push_back({{"end_s", round.end_s}, {"members", round.members}});
  }
  return j;
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

}  // namespace

std::string WhatIfText(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  std::vector<std::string> header;
  for (const Axis& axis : axes) header.push_back(axis.key);
  header.insert(header.end(), {"step s", "round s", "p95", "days", "goodput tokens/s", "of ideal %",
                               "lost %", "busy %", "faults"});
  TextTable table(header);
  std::string remarks;
  for (const Point& p : points) {
    std::vector<std::string> row = p.at;
    double faults = 0;
    for (const ScaleResult& r : p.seeds) faults += static_cast<double>(r.faults);
    row.insert(row.end(),
               {fmt::format("{:.4g}", p.step_s),
                fmt::format("{:.5g}", MeanOver(p, &ScaleResult::round_mean_s)),
                fmt::format("{:.5g}", MeanOver(p, &ScaleResult::round_p95_s)),
                fmt::format("{:.3f}", p.seconds.value / 86400), WithInterval(p.goodput, 1, 0),
                WithInterval(p.goodput, 100 / p.ideal_goodput, 1),
                WithInterval(p.lost_share, 100, 2), WithInterval(p.utilisation, 100, 1),
                fmt::format("{:.0f}", faults / static_cast<double>(p.seeds.size()))});
    table.Add(row);
    if (const std::string remark = Remark(p); !remark.empty()) {
      remarks += fmt::format("{}: {}\n", fmt::join(p.at, ", "), remark);
    }
  }
  return table.Text() + remarks;
}

std::string WhatIfCsv(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  std::string text;
  for (const Axis& axis : axes) text += axis.key + ",";
  text +=
      "seed,step_s,rounds,faults,seconds,round_mean_s,round_p50_s,round_p95_s,round_max_s,"
      "tokens_counted,tokens_lost,goodput_tokens_per_s,ideal_tokens_per_s,utilisation,exchange_s,"
      "ended_early\n";
  for (const Point& p : points) {
    for (const ScaleResult& r : p.seeds) {
      for (const std::string& value : p.at) text += value + ",";
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", r.seed, p.step_s,
                      r.rounds, r.faults, r.seconds, r.round_mean_s, r.round_p50_s, r.round_p95_s,
                      r.round_max_s, r.tokens_counted, r.tokens_lost, r.goodput(), p.ideal_goodput,
                      r.utilisation, r.exchange_s, r.ended_early.empty() ? 0 : 1);
    }
  }
  return text;
}

std::string WhatIfJson(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  json document{{"schema", "scale/1"}, {"points", json::array()}};
  for (const Point& p : points) {
    json j{{"step_s", p.step_s},
           {"ideal_tokens_per_s", p.ideal_goodput},
           {"goodput_tokens_per_s", JsonOf(p.goodput)},
           {"seconds", JsonOf(p.seconds)},
           {"lost_share", JsonOf(p.lost_share)},
           {"utilisation", JsonOf(p.utilisation)},
           {"at", json::object()},
           {"seeds", json::array()}};
    for (size_t i = 0; i < axes.size(); ++i) j["at"][axes[i].key] = p.at[i];
    for (const ScaleResult& r : p.seeds) j["seeds"].push_back(JsonOf(r));
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
  std::map<std::string, std::vector<std::pair<double, const Point*>>> lines;
  double least = 1e300, most = -1e300;
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
    least = std::min(least, std::log(x));
    most = std::max(most, std::log(x));
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
  for (auto& [name, line] : lines) {
    std::sort(line.begin(), line.end());
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
