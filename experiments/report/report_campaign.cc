// The campaign's part of the report: what was resolvable, q, the arms, the planner's conclusions.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/estimates/findings_tables.h"
#include "experiments/estimates/training_advice.h"
#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"
#include "planning/simulator/conclusions.h"

namespace longhaul {
namespace {

Tone ToneOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBelow:
    case Verdict::kBelowOneWay:
    case Verdict::kDiverged:
    case Verdict::kIncomplete:
      return Tone::kBad;
    case Verdict::kAbove:
    case Verdict::kAboveOneWay:
      return Tone::kGood;
    default:
      return Tone::kOpen;
  }
}

// What this model keeps over eight stages, in words that stand by themselves.
std::string EightStageSentence(const Family& family) {
  for (const PlannedDepth& depth : PlannedDepths(family)) {
    if (depth.stages != 8 || !depth.measured.interval) continue;
    return fmt::format(
        "Eight stages keep {:.0f} % [{:.0f}, {:.0f}] of the tokens' worth in this model",
        100 * depth.measured.value, 100 * std::max(0.0, depth.measured.interval->low),
        100 * depth.measured.interval->high);
  }
  return "Eight stages were not measured";
}

// "6, 14": the crossings of its arms.
std::string CrossingsOf(const Family& family) {
  std::string all;
  for (const ArmResult* arm : family.arms) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", arm->crossings);
  }
  return all;
}

std::string Cards(const CampaignAnalysis& a) {
  std::string cards;
  for (const Family& family : a.families) {
    if (!family.off) {
      cards += fmt::format("<div class=\"card\"><b>no q</b><span>{}: {}</span></div>",
                           HtmlEscape(family.codecs), HtmlEscape(family.note));
      continue;
    }
    const Measured& q = family.off->q;
    const std::string interval =
        q.interval ? fmt::format("95 % interval {:.4f} to {:.4f} ({}), {} seeds", q.interval->low,
                                 q.interval->high, q.interval->method, family.off->seeds)
                   : std::string("no interval");
    const Verdict verdict = family.verdict();
    cards += fmt::format(
        "<div class=\"card\"><span>q per crossing, {}, K = {}, codec off at "
        "evaluation</span><b>{}{:.4f}</b>"
        "<span>{}</span><br>{}</div>",
        HtmlEscape(family.codecs), CrossingsOf(family), q.interval ? "" : "(", q.value,
        q.bound == Bound::kLowEnd ? interval + "; its low end is cut at the smallest budget"
                                  : interval,
        HtmlBadge(ToString(verdict), ToneOf(verdict)));
    const double k = 7.0 * static_cast<double>(family.directions());
    cards += fmt::format(
        "<div class=\"card\"><span>eight stages, {}</span><p class=\"finding plain\">{}.</p>"
        "<span>the assumed 0.995 gives {:.0f} %; {:.0f} % need a q of at least {:.5f}</span></div>",
        HtmlEscape(family.codecs), HtmlEscape(EightStageSentence(family)),
        100 * std::pow(AssumedQ(family.directions()), k), 100 * kEightStageFloor,
        std::pow(kEightStageFloor, 1 / k));
  }
  return cards.empty() ? cards : "<div class=\"cards\">" + cards + "</div>\n";
}

std::string QCell(const std::optional<Efficiency>& e) {
  return e && e->q ? HtmlOf({*e->q, 4}) : "-";
}

// What stands against 0.995, or what the arm changes and so has no q.
std::string VerdictCell(const ArmResult& arm) {
  std::string cell = HtmlBadge(ToString(arm.verdict()), ToneOf(arm.verdict()));
  if (!arm.changes.empty()) cell += "<br>" + HtmlEscape(ToString(arm.changes));
  if (!arm.other_build.empty()) cell += "<br>another build, " + HtmlEscape(arm.other_build);
  if (arm.reference != kD0Reference) cell += "<br>against " + HtmlEscape(arm.reference);
  return cell;
}

std::string CodecsCell(const ArmResult& arm) {
  return fmt::format("<span class=\"nb\">{}</span><br><span class=\"nb\">/ {}</span>",
                     HtmlEscape(arm.forward_codec), HtmlEscape(arm.backward_codec));
}

std::string Equivalence(const Efficiency& e) {
  if (!e.q) return "-";
  if (!e.equivalent) return "no interval";
  const double margin = kEquivalenceMargin * static_cast<double>(e.crossings);
  if (e.ln_eta.interval && e.ln_eta.interval->high < -margin) return "no";
  return *e.equivalent ? fmt::format("yes, within &plusmn;{:.3f}", margin)
                       : std::string("not resolved");
}

std::string ArmsTable(const CampaignAnalysis& a) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm) continue;
    std::vector<std::string> row = {HtmlEscape(arm.arm), CodecsCell(arm),
                                    fmt::format("{}", arm.stages), fmt::format("{}", arm.crossings),
                                    fmt::format("{}", arm.off ? arm.off->seeds : arm.seeds)};
    if (arm.off) {
      row.push_back(HtmlOf({arm.off->delta_nat, 4}));
      row.push_back(HtmlOf({arm.off->eta, 3}));
      row.push_back(QCell(arm.off));
      row.push_back(QCell(arm.on));
      row.push_back(VerdictCell(arm));
      row.push_back(Equivalence(*arm.off));
    } else {
      row.push_back(arm.delta_alone ? HtmlOf({*arm.delta_alone, 4}) : "-");
      row.resize(9, "-");
      row.push_back(HtmlBadge(arm.note, Tone::kBad));
      row.emplace_back("-");
    }
    rows.push_back(std::move(row));
  }
  return HtmlTable(
      {"arm", "codecs forward<br>/ backward", "S", "K", "seeds", "&Delta; loss, nat",
       "&eta;,<br>codec off", "q,<br>codec off", "q,<br>codec on", "against 0.995", "no loss?"},
      rows);
}

std::string ControlsTable(const CampaignAnalysis& a) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kControl) continue;
    std::vector<std::string> row = {HtmlEscape(arm.arm),
                                    fmt::format("{:.4f}", arm.trained_fraction)};
    if (arm.off) {
      const Measured& eta = arm.off->eta;
      row.push_back(fmt::format("{}", arm.off->seeds));
      row.push_back(HtmlOf({arm.off->delta_nat, 4}));
      row.push_back(HtmlEscape(WithInterval(eta, 3)));
      const std::string verdict = arm.ControlVerdict();
      row.push_back(HtmlBadge(verdict, verdict.starts_with("holds")    ? Tone::kGood
                                       : verdict.starts_with("MISSES") ? Tone::kBad
                                                                       : Tone::kOpen));
    } else {
      row.resize(5, "-");
      row.push_back(HtmlBadge(arm.note, Tone::kBad));
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  return "<h3>Control: is a known loss recovered?</h3><p class=\"note\">Uncompressed runs with "
         "fewer tokens, kept out of the fit. Their true efficiency is their share of the tokens, "
         "in whole steps.</p>" +
         HtmlTable({"control", "true &eta;", "seeds", "&Delta; loss, nat", "recovered &eta;", ""},
                   rows);
}

// What repeats its reference, bit for bit or not; and reference runs that were lost.
std::string NullTest(const CampaignAnalysis& a) {
  std::string lines;
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kReference || arm.lost == 0) continue;
    lines += fmt::format("<p class=\"note\">{}: {}</p>\n", HtmlEscape(arm.arm),
                         HtmlBadge(arm.LostText(), Tone::kBad));
  }
  for (const IdentityCheck& check : a.identities) {
    lines += fmt::format("<p class=\"note\">{}</p>\n", HtmlEscape(check.Text()));
  }
  for (const std::string& line : a.builds) {
    lines += fmt::format("<p class=\"note open\">Not of one build and machine: {}</p>\n",
                         HtmlEscape(line));
  }
  for (const std::string& line : LearntNothing(a)) {
    lines += fmt::format("<p class=\"note open\">{}</p>\n", HtmlEscape(line));
  }
  return lines;
}

std::string PlannerTable(const CampaignAnalysis& a) {
  std::vector<std::vector<std::string>> rows;
  for (const Family& family : a.families) {
    for (const PlannedDepth& depth : PlannedDepths(family)) {
      rows.push_back({HtmlEscape(family.codecs), fmt::format("{}", depth.stages),
                      fmt::format("{:.4f}", depth.assumed),
                      HtmlEscape(WithInterval(depth.measured, 4)),
                      depth.direct ? "arm at this S" : "q<sup>K</sup>"});
    }
  }
  if (rows.empty()) return "";
  return fmt::format(
             "<h3>What it does to a planner's conclusions</h3><p class=\"note\">A sensitivity "
             "analysis, no verdict: a planner's models are more than {:g} times as large as this "
             "one ({} parameters), and q did not transfer between model sizes where it was tested. "
             "The planning model's conclusions that depend on q change at these values of q per "
             "crossing and direction, all else assumed:</p>",
             simulator::kMostSizeRatio, a.parameters) +
         HtmlOf(simulator::BreakEvenTable()) +
         "<p class=\"note\">With q = 0.995 per crossing and direction &eta;<sub>act</sub> is "
         "0.995<sup>2(S-1)</sup>; and in this model:</p>" +
         HtmlTable({"codec forward / backward", "S", "&eta;<sub>act</sub> assumed",
                    "&eta;<sub>act</sub> in this model", "from"},
                   rows);
}

// Figures in the order of the page, and what stands below them before the conditions.
constexpr std::pair<const char*, const char*> kCaptions[] = {
    {"forest",
     "q per crossing by arm, codec off (filled) and on (open) at evaluation; joint fit over "
     "depths below. Lines at 1 and at the assumed 0.995. "},
    {"depth",
     "ln &eta; against crossings K, codec off at evaluation: seeds (small), mean with 95 % "
     "interval, the joint fit (M1), the other depth models (dotted) and the assumed 0.995 per "
     "crossing (0.990 where one direction is compressed). "},
    {"reference",
     "Reference curve: final held-out loss of every uncompressed run against its token budget, "
     "the fit, and where each arm's mean loss reads off, codec off. "},
    {"residuals",
     "Residuals of the reference curve. Left: loss of each uncompressed run less the fit, one "
     "line per seed; what is common to a line is that seed's luck and cancels in paired "
     "differences. Right: the same less each seed's mean. The curve goes through the means of "
     "its budgets; what lies between them the controls show (crosses, not fitted). "},
    {"training",
     "Training loss along the runs at D0 (above), and its difference to the reference of the "
     "same seed at the same tokens (below): mean over seeds, band from the lowest to the highest "
     "seed. "},
    {"diloco",
     "&eta; of DiLoCo against inner steps H, groups M and codec of the outer delta, 95 % "
     "intervals. Filled: the groups share the reference's batch; open: each has it. Dashed red: "
     "what a planner assumes for H alone and for M alone at this N, far below the sizes it was "
     "made for. "},
    {"traffic",
     "Loss beside the reference's at D0 against the bytes that an arm's groups send each other, "
     "95 % intervals. Filled: as many tokens as D0; open: fewer. "}};

}  // namespace

std::string CampaignPart(const CampaignAnalysis& a, const std::string& wire,
                         const Figures& figures) {
  const std::string conditions = HtmlEscape(a.Conditions());
  std::string out = fmt::format("<p class=\"conditions\">{}</p>\n", conditions);
  const std::string summary = CampaignSummary(a);
  if (!summary.empty()) out += fmt::format("<p>{}</p>\n", HtmlEscape(summary));
  out += Cards(a);
  out += "<h3>Arms</h3>" + ArmsTable(a);
  out += fmt::format(
      "<p class=\"note\">&Delta; is the paired difference to the uncompressed run at D0; &eta; the "
      "share of tokens the uncompressed model would have needed for the same loss; q = "
      "&eta;<sup>1/K</sup> per crossing, for arms that differ from their reference in stages and "
      "codecs alone. &le;: nothing is said below the smallest reference budget. Intervals are 95 "
      "%, t over paired seeds. \"Codec on\": boundaries compressed during evaluation too. \"No "
      "loss\" "
      "needs "
      "the 90 % interval of ln &eta; inside &plusmn;{} K.</p>\n",
      kEquivalenceMargin);
  for (const auto& [name, caption] : kCaptions) {
    out += FigureHtml(figures, name, caption + conditions + ".");
    if (std::string_view(name) == "forest") out += wire;
  }
  for (const Table& found : FindingsTables(a)) out += HtmlOf(found);
  out += PlannerTable(a);
  out += ControlsTable(a);
  out += NullTest(a);
  if (a.curve) {
    out += fmt::format(
        "<p class=\"note\">Slope at D0 {:.4f} nat per e-fold of tokens (standard error {:.4f} over "
        "seeds). {}</p>\n",
        a.curve->slope_nat, a.curve->slope_se_nat, HtmlEscape(CurveErrorText(*a.curve)));
  }
  return out;
}

}  // namespace longhaul
