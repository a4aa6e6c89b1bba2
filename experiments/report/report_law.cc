#include "experiments/report/report_law.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/numbers.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/table.h"
#include "experiments/record/whole_file.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"

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

Cell TermCell(const ArmLaw& law, PriceTerm term) {
  return law.law && law.law->Has(term) ? Cell(TermOf(*law.law, term), 2) : Cell::None();
}

bool Excludes0(const Measured& x) {
  return x.interval && (x.interval->low > 0 || x.interval->high < 0);
}

// What the exponent in N says: 0 is the transfer.
std::string TransferText(const ArmLaw& law) {
  if (!law.law) return law.note;
  if (!law.law->Has(PriceTerm::kSize)) return "one size: no exponent in N";
  const std::string_view transfer = law.loss ? "loss transfer" : "token transfer";
  // No exponent is the law with one of 0.
  if (law.law->Refused()) return fmt::format("{}: refuted, as is every power of N", transfer);
  return fmt::format("{}: {}", transfer,
                     Excludes0(TermOf(*law.law, PriceTerm::kSize)) ? "refuted" : "not refuted");
}

// Empty where the points may lie on the law.
std::string MisfitText(const ArmLaw& law) {
  if (!law.law || !law.law->Refused()) return "";
  return fmt::format(
      "{}, {}: the points do not lie on this law (z^2 {:.3g} a degree of freedom, {} of them, p {:.1g}): its "
      "intervals are wider by {:.3g} and t of so few degrees; it foretells nothing\n",
      NameOf(law), WhatOf(law), law.law->misfit, law.law->freedom, law.law->p_misfit,
      std::sqrt(law.law->misfit));
}

// Of the laws that their points do not refuse. An aim's arm is that of the largest cell that has one of its name.
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
      if (law.arm.empty() || !law.law || law.law->Refused()) continue;
      const PricePlace place{aim.parameters, aim.tokens, 0, law.points.back().places};
      out.push_back({law.arm, law.loss, aim, PriceAt(*law.law, place)});
    }
  }
  return out;
}
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

namespace {

Table CellsTable(const LawReport& report) {
  Table table{.columns = ColumnsOf("cell:cell | N:parameters | D:tokens | D/N | seeds:seeds | "
                                   "slope, nat:slope_nat | arm:arm | -:codecs | cuts:cuts | "
                                   "NMSE:nmse | -ln eta:minus_ln_eta[] | Delta, nat:delta_nat[] | "
                                   "-:note")};
  for (const PriceCell& cell : report.cells) {
    for (const PriceArm& arm : cell.arms) {
      const double eps = arm.loss->eps;
      table.Add({cell.name, Cell(cell.parameters, "{:.0f}"), Cell(cell.tokens, "{:.0f}"),
                 Cell(cell.tokens / cell.parameters, "{:.1f}"), cell.seeds,
                 Cell(cell.slope_nat, "{:.3f}"), arm.arm, arm.codecs, arm.loss->places.size(),
                 eps > 0 ? Cell(eps, "{:.4f}") : Cell::None(),
                 arm.tokens ? Cell(arm.minus_ln_eta, 3) : Cell::None(arm.note),
                 Cell(arm.delta_nat, 3), arm.note});
    }
  }
  return table;
}

// Exponents, and what that of the size says; for programs LawTermsCsv has each term.
Table ExponentsTable(const LawReport& report) {
  Table table{.columns = ColumnsOf("arm | x | points | a, of N | b, of D/N | p, of eps | tilt | "
                                   " | worst z")};
  for (const ArmLaw& law : report.laws) {
    std::optional<double> worst;
    if (law.law && law.points.size() > law.law->terms.size()) {
      worst = 0;
      for (const double z : law.law->z) worst = std::abs(z) > std::abs(*worst) ? z : *worst;
    }
    table.Add({NameOf(law), WhatOf(law), law.points.size(), TermCell(law, PriceTerm::kSize),
               TermCell(law, PriceTerm::kTokens), TermCell(law, PriceTerm::kEps),
               TermCell(law, PriceTerm::kTilt), TransferText(law), Cell(worst, "{:.1f}")});
  }
  return table;
}

Table AimsTable(const LawReport& report) {
  Table table{.columns = ColumnsOf("N:parameters | D:tokens | arm:arm | x:quantity | "
                                   "foretold:value,low,high")};
  for (const Foretold& f : Foretell(report)) {
    table.Add({Cell(f.aim.parameters, "{:.0f}"), Cell(f.aim.tokens, "{:.0f}"), f.arm,
               f.loss ? "Delta" : "-ln eta", Cell(f.price, 3)});
  }
  return table;
}

}  // namespace

std::string LawText(const LawReport& report) {
  std::string text = "x = A eps^p N^a (D/N)^b sum over cuts of 1 + tilt (l/L - 1/2)\n\n";
  text += GridText(CellsTable(report)) + "\n";
  for (const PriceCell& cell : report.cells) {
    for (const std::string& why : cell.left_out) {
      text += fmt::format("{}: left out: {}\n", cell.name, why);
    }
  }
  text += GridText(ExponentsTable(report));
  for (const ArmLaw& law : report.laws) text += MisfitText(law);
  if (report.aims.empty()) return text;
  return text + "\nForetold (95 % of where the law is; a campaign's own error comes on top):\n" +
         GridText(AimsTable(report));
}

CsvRows LawCsv(const LawReport& report) { return CsvRowsOf(CellsTable(report)); }
CsvRows LawAimsCsv(const LawReport& report) { return CsvRowsOf(AimsTable(report)); }

CsvRows LawTermsCsv(const LawReport& report) {
  Table table{.columns = ForPrograms("arm | quantity | points | term | value,low,high | note")};
  for (const ArmLaw& law : report.laws) {
    const auto add = [&](Cell term, Cell value, Cell note) {
      table.Add({NameOf(law), WhatOf(law), law.points.size(), std::move(term), std::move(value),
                 std::move(note)});
    };
    if (!law.law) add(Cell::None(), Cell::None(), law.note);
    if (!law.law) continue;
    for (const PriceTerm term : law.law->terms) {
      Cell note = Cell::None();
      if (term == PriceTerm::kLnA) {
        note = fmt::format("at N {:.6g}, D/N {:.4g}, eps {:.4g}", law.law->centre_parameters,
                           law.law->centre_ratio, law.law->centre_eps);
      } else if (law.law->Refused()) {
        note = fmt::format("refused by its points: p {:.1g}", law.law->p_misfit);
      }
      add(ToString(term), TermOf(*law.law, term), std::move(note));
    }
  }
  return CsvRowsOf(table);
}

absl::StatusOr<std::string> WriteLaw(const LawReport& report, const std::string& python,
                                     const std::string& out) {
  if (absl::Status s = MakeReportFolder(out); !s.ok()) return s;
  for (const auto& [name, rows] : {std::pair("law", LawCsv(report)),
                                   {"law_terms", LawTermsCsv(report)},
                                   {"law_aims", LawAimsCsv(report)}}) {
    const std::string path = fmt::format("{}/{}.csv", out, name);
    if (absl::Status s = WriteWholeFile(path, Csv(rows)); !s.ok()) return s;
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
