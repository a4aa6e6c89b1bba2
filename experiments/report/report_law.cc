#include "experiments/report/report_law.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/numbers.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/text_table.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "experiments/report/report_files.h"

namespace longhaul {
namespace {

constexpr char kPooled[] = "all codecs, forward";

const std::optional<PricePoint>& PointOf(const PriceArm& arm, bool loss) {
  return loss ? arm.loss : arm.tokens;
}

ArmLaw LawOf(const std::vector<PriceCell>& cells, const std::string& arm, bool loss) {
  ArmLaw out{arm, loss};
  for (const PriceCell& cell : cells) {
    for (const PriceArm& a : cell.arms) {
      const std::optional<PricePoint>& point = PointOf(a, loss);
      const bool mine = arm.empty() ? a.forward && !a.noise : a.arm == arm;
      if (!mine || !point) continue;
      out.points.push_back(*point);
      // One arm's error goes with the size by itself: its exponent is that of the codec as it is.
      if (!arm.empty()) out.points.back().eps = 0;
    }
  }
  absl::StatusOr<PriceLaw> law = FitPriceLaw(out.points);
  if (law.ok()) {
    out.law = *std::move(law);
  } else {
    out.note = std::string(law.status().message());
  }
  return out;
}

std::string NameOf(const ArmLaw& law) { return law.arm.empty() ? kPooled : law.arm; }
std::string_view WhatOf(const ArmLaw& law) { return law.loss ? "Delta" : "-ln eta"; }

std::vector<std::string> ArmNames(const std::vector<PriceCell>& cells) {
  std::vector<std::string> names;
  for (const PriceCell& cell : cells) {
    for (const PriceArm& arm : cell.arms) {
      if (std::find(names.begin(), names.end(), arm.arm) == names.end()) names.push_back(arm.arm);
    }
  }
  return names;
}

std::string TermText(const ArmLaw& law, PriceTerm term) {
  return law.law && law.law->Has(term) ? WithInterval(TermOf(*law.law, term), 2) : "-";
}

bool Excludes0(const Measured& x) {
  return x.interval && (x.interval->low > 0 || x.interval->high < 0);
}

// What the exponent in N says: 0 is the transfer.
std::string TransferText(const ArmLaw& law) {
  if (!law.law) return law.note;
  if (!law.law->Has(PriceTerm::kSize)) return "one size: no exponent in N";
  const std::string_view transfer = law.loss ? "loss transfer" : "token transfer";
  return fmt::format("{}: {}", transfer,
                     Excludes0(TermOf(*law.law, PriceTerm::kSize)) ? "refuted" : "not refuted");
}

// An aim's arm is that of the largest cell that has one of its name.
struct Foretold {
  std::string arm;
  bool loss;
  LawAim aim;
  Measured price;
};
std::vector<Foretold> Foretell(const LawReport& report) {
  std::vector<Foretold> out;
  for (const LawAim& aim : report.aims) {
    for (const ArmLaw& law : report.laws) {
      if (law.arm.empty() || !law.law) continue;
      const PricePlace place{aim.parameters, aim.tokens, 0, law.points.back().places};
      out.push_back({law.arm, law.loss, aim, PriceAt(*law.law, place)});
    }
  }
  return out;
}

std::string Text(double x) { return fmt::format("{}", x); }
}  // namespace

absl::StatusOr<LawAim> ReadLawAim(const std::string& text) {
  const size_t colon = text.find(':');
  LawAim aim{0, 0};
  if (colon == std::string::npos || !absl::SimpleAtod(text.substr(0, colon), &aim.parameters) ||
      !absl::SimpleAtod(text.substr(colon + 1), &aim.tokens) || !std::isfinite(aim.parameters) ||
      !std::isfinite(aim.tokens) || !(aim.parameters > 0) || !(aim.tokens > 0)) {
    return absl::InvalidArgumentError(fmt::format(
        "--at {}: want PARAMETERS:TOKENS, both above 0, for example 435264:8706048", text));
  }
  return aim;
}

absl::StatusOr<LawReport> MakeLawReport(std::vector<PriceCell> cells, std::vector<LawAim> aims) {
  if (cells.empty()) return absl::FailedPreconditionError("a law takes one campaign or more");
  LawReport report{std::move(cells), {}, std::move(aims)};
  std::vector<std::string> names = ArmNames(report.cells);
  names.emplace_back();  // all of them
  for (const std::string& name : names) {
    for (const bool loss : {false, true}) report.laws.push_back(LawOf(report.cells, name, loss));
  }
  return report;
}

std::string LawText(const LawReport& report) {
  std::string text = "x = A eps^p N^a (D/N)^b sum over cuts of 1 + tilt (l/L - 1/2)\n\n";
  TextTable cells({"cell", "N", "D", "D/N", "seeds", "slope, nat", "arm", "cuts", "NMSE", "-ln eta",
                   "Delta, nat"});
  for (const PriceCell& cell : report.cells) {
    for (const PriceArm& arm : cell.arms) {
      const double eps = arm.loss->eps;
      cells.Add(
          {cell.name, fmt::format("{:.0f}", cell.parameters), fmt::format("{:.0f}", cell.tokens),
           fmt::format("{:.1f}", cell.tokens / cell.parameters), fmt::format("{}", cell.seeds),
           fmt::format("{:.3f}", cell.slope_nat), arm.arm,
           fmt::format("{}", arm.loss->places.size()), eps > 0 ? fmt::format("{:.4f}", eps) : "-",
           arm.tokens ? WithInterval(arm.minus_ln_eta, 3) : arm.note,
           WithInterval(arm.delta_nat, 3)});
    }
  }
  text += cells.Text() + "\n";
  for (const PriceCell& cell : report.cells) {
    for (const std::string& why : cell.left_out) {
      text += fmt::format("{}: left out: {}\n", cell.name, why);
    }
  }
  TextTable terms(
      {"arm", "x", "points", "a, of N", "b, of D/N", "p, of eps", "tilt", "", "worst z"});
  for (const ArmLaw& law : report.laws) {
    double worst = 0;
    if (law.law) {
      for (const double z : law.law->z) worst = std::abs(z) > std::abs(worst) ? z : worst;
    }
    terms.Add({NameOf(law), std::string(WhatOf(law)), fmt::format("{}", law.points.size()),
               TermText(law, PriceTerm::kSize), TermText(law, PriceTerm::kTokens),
               TermText(law, PriceTerm::kEps), TermText(law, PriceTerm::kTilt), TransferText(law),
               law.law && law.points.size() > law.law->terms.size() ? fmt::format("{:.1f}", worst)
                                                                    : "-"});
  }
  text += terms.Text();
  if (report.aims.empty()) return text;
  text += "\nForetold (95 % of where the law is; a campaign's own error comes on top):\n";
  TextTable aims({"N", "D", "arm", "x", "foretold"});
  for (const Foretold& f : Foretell(report)) {
    aims.Add({fmt::format("{:.0f}", f.aim.parameters), fmt::format("{:.0f}", f.aim.tokens), f.arm,
              f.loss ? "Delta" : "-ln eta", WithInterval(f.price, 3)});
  }
  return text + aims.Text();
}

CsvRows LawCsv(const LawReport& report) {
  CsvRows rows = {{"cell", "parameters", "tokens", "seeds", "slope_nat", "arm", "codecs", "cuts",
                   "nmse", "minus_ln_eta", "minus_ln_eta_low", "minus_ln_eta_high", "delta_nat",
                   "delta_nat_low", "delta_nat_high", "note"}};
  for (const PriceCell& cell : report.cells) {
    for (const PriceArm& arm : cell.arms) {
      std::vector<std::string> row = {cell.name,
                                      Text(cell.parameters),
                                      Text(cell.tokens),
                                      fmt::format("{}", cell.seeds),
                                      Text(cell.slope_nat),
                                      arm.arm,
                                      arm.codecs,
                                      fmt::format("{}", arm.loss->places.size()),
                                      arm.loss->eps > 0 ? Text(arm.loss->eps) : ""};
      if (arm.tokens) {
        AppendCells(row, arm.minus_ln_eta);
      } else {
        row.insert(row.end(), 3, "");
      }
      AppendCells(row, arm.delta_nat);
      row.push_back(arm.note);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

CsvRows LawTermsCsv(const LawReport& report) {
  CsvRows rows = {{"arm", "quantity", "points", "term", "value", "low", "high", "note"}};
  for (const ArmLaw& law : report.laws) {
    const std::vector<std::string> head = {NameOf(law), std::string(WhatOf(law)),
                                           fmt::format("{}", law.points.size())};
    if (!law.law) {
      rows.push_back({head[0], head[1], head[2], "", "", "", "", law.note});
      continue;
    }
    for (const PriceTerm term : law.law->terms) {
      std::vector<std::string> row = head;
      row.emplace_back(ToString(term));
      AppendCells(row, TermOf(*law.law, term));
      row.push_back(term == PriceTerm::kLnA
                        ? fmt::format("at N {:.6g}, D/N {:.4g}, eps {:.4g}",
                                      law.law->centre_parameters, law.law->centre_ratio,
                                      law.law->centre_eps)
                        : "");
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

CsvRows LawAimsCsv(const LawReport& report) {
  CsvRows rows = {{"parameters", "tokens", "arm", "quantity", "value", "low", "high"}};
  for (const Foretold& f : Foretell(report)) {
    std::vector<std::string> row = {Text(f.aim.parameters), Text(f.aim.tokens), f.arm,
                                    f.loss ? "Delta" : "-ln eta"};
    AppendCells(row, f.price);
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<std::string> WriteLaw(const LawReport& report, const std::string& python,
                                     const std::string& out) {
  if (absl::Status s = MakeReportFolder(out); !s.ok()) return s;
  for (const auto& [name, rows] : {std::pair("law", LawCsv(report)),
                                   {"law_terms", LawTermsCsv(report)},
                                   {"law_aims", LawAimsCsv(report)}}) {
    const std::string path = fmt::format("{}/{}.csv", out, name);
    if (absl::Status s = WriteReportFile(path, Csv(rows)); !s.ok()) return s;
  }
  // A figure of earlier cells must not pass for one of these.
  std::error_code ignored;
  std::filesystem::remove(out + "/law.svg", ignored);
  const absl::Status drawn = python.empty()
                                 ? absl::FailedPreconditionError("no Python interpreter was given")
                                 : DrawPlots(python, {out}, out + "/plots.log");
  return drawn.ok() ? "" : std::string(drawn.message());
}

}  // namespace longhaul
