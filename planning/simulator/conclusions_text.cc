// The answer of a calibration as text, CSV and JSON.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/table.h"
#include "planning/simulator/conclusions.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

std::string Span(const Measured& m) {
  return fmt::format("{:.5g} [{:.5g}, {:.5g}]", m.value, m.low, m.high);
}

std::string FactorTable(const CalibrationPlan& plan) {
  const Calibration& c = plan.calibration();
  Table table{.columns = ColumnsOf("factor | assumed | measured | how it is used")};
  const std::string assumed = "stays assumed";
  if (const ActivationEntry* a = plan.activation()) {
    table.Add({"q per crossing", "0.995", Span(a->q), "measured: " + a->codec});
    for (const auto& [name, ratio] : {std::pair("byte ratio forward", a->forward_ratio),
                                      {"byte ratio backward", a->backward_ratio}}) {
      table.Add({name, "4", ratio ? fmt::format("{:.4g}", *ratio) : "-",
                 !ratio           ? assumed
                 : a->ratio_width ? fmt::format("of frames at width {}", *a->ratio_width)
                                  : "measured from bytes, both directions together"});
    }
    table.Add({"depth", "q^(2(S-1))", a->gamma ? "gamma " + Span(*a->gamma) : "-",
               fmt::format("{} measured S, a line between; {}", a->ln_eta.size(),
                           a->beyond.empty() ? std::string("q beyond")
                                             : fmt::format("several models to S = {}",
                                                           a->beyond.back().stages))});
  } else {
    table.Add({"q per crossing", "0.995", "-", assumed});
  }
  table.Add({"alpha of eta_H", "formula", c.alpha ? Span(*c.alpha) : "-",
             !c.alpha              ? assumed
             : plan.extrapolates() ? "measured, scaled to every size"
                                   : "measured at its own size only: " + assumed});
  if (c.eta_c.empty()) table.Add({"eta_c", "table", "-", assumed});
  for (const RatioEntry& e : c.eta_c) {
    table.Add({"eta_c", "table", Span(e.eta),
               fmt::format("{} at {:.4g}x; for ratios within 10 %", e.codec, e.ratio)});
  }
  table.Add({"eta_H eta_r at M and H", "formula", fmt::format("{} totals", c.totals.size()),
             c.totals.empty() ? assumed : "at their own M and within 10 % of H, else assumed"});
  table.Add({"eta_H, eta_r apart", "formula",
             fmt::format("{} and {} cells", c.eta_h.size(), c.eta_r.size()),
             "of their own M, H and size: " + assumed});
  table.Add({"straggler coefficient", "0.05", c.straggler ? Span(*c.straggler) : "-",
             c.straggler ? "measured" : assumed});
  table.Add({"step time ratio", "1", c.step_time ? Span(*c.step_time) : "-",
             c.step_time ? "measured" : assumed});
  return GridText(table);
}

bool AnyVerdict(const std::vector<Attribution>& answer) {
  return std::any_of(answer.begin(), answer.end(),
                     [](const Attribution& a) { return a.whole.has_verdict(); });
}

std::string VerdictOf(const Judgement& j) {
  if (!j.has_verdict()) return std::string(VerdictName(j));
  return j.touched ? std::string(VerdictName(j)) : "unchanged (all assumed)";
}

std::string JudgementTable(const std::vector<Attribution>& answer, Transfer transfer) {
  const bool verdicts = AnyVerdict(answer);
  Table table{.columns = ColumnsOf("conclusion (true from a margin of 1) | assumed | measured | "
                                   "interval | change")};
  if (verdicts) table.AddColumns(ColumnsOf("verdict"));
  for (const Attribution& a : answer) {
    if (a.transfer != transfer) continue;
    const Judgement& j = a.whole;
    std::vector<Cell> row = {
        j.name, fmt::format("{:.4f} {}", j.assumed, j.assumed >= 1 ? "true" : "false"),
        Cell(j.point, "{:.4f}"), fmt::format("[{:.4f}, {:.4f}]", j.low, j.high),
        fmt::format("{:+.2f} %", 100 * (j.point / j.assumed - 1))};
    if (verdicts) row.emplace_back(VerdictOf(j));
    table.Add(std::move(row));
  }
  return GridText(table);
}

// Each part of the calibration alone, for the conclusions whose margin crosses 1.
std::string PartTable(const std::vector<Attribution>& answer, Transfer transfer) {
  const bool verdicts = AnyVerdict(answer);
  Table table{.columns = ColumnsOf("conclusion | measured alone | margin | interval")};
  if (verdicts) table.AddColumns(ColumnsOf("verdict"));
  for (const Attribution& a : answer) {
    if (a.transfer != transfer) continue;
    for (const Attribution::OfPart& of : a.parts) {
      const Judgement& j = of.judgement;
      std::vector<Cell> row = {j.name, PartName(of.part), Cell(j.point, "{:.4f}"),
                               fmt::format("[{:.4f}, {:.4f}]", j.low, j.high)};
      if (verdicts) row.emplace_back(VerdictOf(j));
      table.Add(std::move(row));
    }
  }
  if (table.rows.empty()) return "";
  return "\nOne part measured, all else assumed, where the margin crosses 1:\n" + GridText(table);
}

}  // namespace

std::string_view TransferName(Transfer transfer) {
  return transfer == Transfer::kTokens ? "tokens" : "loss";
}

Table BreakEvenTable() {
  Table table{.columns = ColumnsOf("conclusion | with q = 0.995 | changes below q")};
  for (const Conclusion& c : Conclusions()) {
    if (!c.break_even_q) continue;
    const bool holds = c.margin([](const Scenario& s) { return s; }) >= 1;
    table.Add({c.name, holds ? "true" : "false", Cell(*c.break_even_q, "{:.4f}")});
  }
  return table;
}

namespace {

// What may be read from the margins, by how far the conclusions' models are from the measured one.
std::string DistanceText(const CalibrationPlan& plan, const std::vector<Attribution>& answer) {
  double least = std::numeric_limits<double>::infinity(), most = 1;
  for (const Attribution& a : answer) {
    least = std::min(least, a.whole.size_ratio);
    most = std::max(most, a.whole.size_ratio);
  }
  std::string out = fmt::format(
      "Measured at {:.3g} parameters; the conclusions' models differ from that by a factor of {:.2g} "
      "to {:.2g}.\n",
      plan.calibration().parameters, least, most);
  if (most > kMostSizeRatio) {
    out += fmt::format(
        "Sensitivity analysis: beyond {:g} times the measured size there is no verdict. A q did not "
        "transfer between\nmodel sizes where it was tested (docs/results/law).\n",
        kMostSizeRatio);
  }
  return out;
}

}  // namespace

std::string ConclusionsText(const CalibrationPlan& plan, const std::vector<Attribution>& answer) {
  const Calibration& c = plan.calibration();
  std::string out = fmt::format("Calibration of plan {}, commit {}\n{}",
                                c.plan_sha256.substr(0, 12), c.commit, DistanceText(plan, answer));
  if (c.bounds > 0) {
    out += fmt::format("{} of its numbers are bounds, not measurements, and are not used.\n",
                       c.bounds);
  }
  out +=
      "\nBreak-even: the q per crossing and direction at which a conclusion changes, all else assumed.\n" +
      GridText(BreakEvenTable());
  out += "\n" + FactorTable(plan);
  out += "\nToken transfer: the share of tokens kept stays as measured.\n";
  out += JudgementTable(answer, Transfer::kTokens) + PartTable(answer, Transfer::kTokens);
  if (plan.can_transfer_loss()) {
    out +=
        "\nLoss transfer: the difference in nats stays as measured and is worth tokens by the "
        "law's slope at the scenario's size.\n";
    out += JudgementTable(answer, Transfer::kLoss) + PartTable(answer, Transfer::kLoss);
  } else {
    out += "\nLoss transfer: not possible, the calibration has no differences in nats.\n";
  }
  return out;
}

namespace {

// Of a search: a count for each of 200 draws, of which 5 and 195 are the ends.
MeasuredNumber MeasureNodes(const CalibrationPlan& plan, Transfer transfer,
                            const NamedScenario& row) {
  constexpr size_t kSearches = 200;
  const NamedScenario::Sought& sought = *row.sought;
  const auto nodes = [&](const Adjust& adjust) {
    const auto found =
        FewestNodes(row.scenario, sought.target, sought.at_least, sought.most_nodes, adjust);
    return found ? static_cast<double>(*found) : std::numeric_limits<double>::infinity();
  };
  const Judgement j = Judge(plan, transfer, {row.name, nodes}, kSearches);
  return {row.name, fmt::format("nodes for {:g} FLOP", sought.at_least),
          transfer, j.assumed,
          j.low,    j.point,
          j.high,   /*nodes=*/true};
}

std::string Shown(const MeasuredNumber& n, double value) {
  if (!n.nodes) return fmt::format("{:.3e}", value);
  return std::isinf(value) ? "not within most_nodes" : fmt::format("{:.0f}", value);
}

}  // namespace

std::vector<MeasuredNumber> MeasureScenarios(const CalibrationPlan& plan,
                                             const std::vector<NamedScenario>& rows) {
  std::vector<MeasuredNumber> out;
  const auto add = [&](const NamedScenario& row, Transfer transfer, const char* number,
                       double Outcome::*field) {
    const Judgement j = Judge(plan, transfer, {row.name, [&](const Adjust& adjust) {
                                                 return Simulate(adjust(row.scenario)).*field;
                                               }});
    out.push_back({row.name, number, transfer, j.assumed, j.low, j.point, j.high});
  };
  for (const NamedScenario& row : rows) {
    for (const Transfer transfer : {Transfer::kTokens, Transfer::kLoss}) {
      if (transfer == Transfer::kLoss && !plan.can_transfer_loss()) continue;
      if (row.sought) {
        out.push_back(MeasureNodes(plan, transfer, row));
        continue;
      }
      add(row, transfer, "C_local", &Outcome::local);
      if (row.scenario.switches.chi) add(row, transfer, "C_quality", &Outcome::quality);
    }
  }
  return out;
}

std::string MeasuredTable(const std::vector<MeasuredNumber>& numbers) {
  Table table{.columns = ColumnsOf("scenario | transfer | quantity | assumed | measured | low | "
                                   "high | change")};
  for (const MeasuredNumber& n : numbers) {
    table.Add({n.scenario, TransferName(n.transfer), n.number, Shown(n, n.assumed),
               Shown(n, n.point), Shown(n, n.low), Shown(n, n.high),
               std::isfinite(n.point) && std::isfinite(n.assumed)
                   ? fmt::format("{:+.2f} %", 100 * (n.point / n.assumed - 1))
                   : "-"});
  }
  return GridText(table);
}

namespace {

using nlohmann::json;

std::string Line(const Attribution& a, std::string_view part, const Judgement& j) {
  return fmt::format("{},\"{}\",{},{},{},{},{},{},{},{},{}\n", TransferName(a.transfer), j.name,
                     part, j.assumed, j.point, j.low, j.high, VerdictName(j), j.touched ? 1 : 0,
                     j.size_ratio, j.break_even_q ? fmt::format("{}", *j.break_even_q) : "");
}

json Object(const Judgement& j) {
  return {{"assumed", j.assumed}, {"point", j.point},     {"low", j.low},
          {"high", j.high},       {"touched", j.touched}, {"verdict", VerdictName(j)}};
}

}  // namespace

std::string ConclusionsCsv(const std::vector<Attribution>& answer) {
  std::string out =
      "transfer,conclusion,measured,assumed,point,low,high,verdict,touched,size_ratio,break_even_q\n";
  for (const Attribution& a : answer) {
    out += Line(a, "all", a.whole);
    for (const Attribution::OfPart& of : a.parts) out += Line(a, PartName(of.part), of.judgement);
  }
  return out;
}

std::string CalibrationJson(const CalibrationPlan& plan, const std::vector<Attribution>& answer,
                            const std::vector<MeasuredNumber>& numbers) {
  const Calibration& c = plan.calibration();
  json out = {{"plan_sha256", c.plan_sha256}, {"commit", c.commit},
              {"parameters", c.parameters},   {"bounds", c.bounds},
              {"sources", plan.names()},      {"conclusions", json::array()},
              {"scenarios", json::array()}};
  if (const ActivationEntry* a = plan.activation()) {
    out["codec"] = a->codec;
    if (a->forward_ratio) out["ratio_forward"] = *a->forward_ratio;
    if (a->backward_ratio) out["ratio_backward"] = *a->backward_ratio;
  }
  for (const Attribution& a : answer) {
    json object = Object(a.whole);
    object["conclusion"] = a.whole.name;
    object["transfer"] = TransferName(a.transfer);
    object["size_ratio"] = a.whole.size_ratio;
    object["break_even_q"] = a.whole.break_even_q ? json(*a.whole.break_even_q) : json();
    for (const Attribution::OfPart& of : a.parts) {
      object["alone"][PartName(of.part)] = Object(of.judgement);
    }
    out["conclusions"].push_back(std::move(object));
  }
  for (const MeasuredNumber& n : numbers) {
    out["scenarios"].push_back({{"scenario", n.scenario},
                                {"number", n.number},
                                {"transfer", TransferName(n.transfer)},
                                {"assumed", n.assumed},
                                {"point", n.point},
                                {"low", n.low},
                                {"high", n.high}});
  }
  return out.dump();
}

}  // namespace longhaul::simulator
