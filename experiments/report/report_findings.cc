// Depth models, directions, dose-response, on and off, and which tests were named beforehand.
#include <fmt/format.h>

#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

using Cells = std::vector<std::vector<std::string>>;

std::string Parameters(const DepthFit& fit) {
  std::string text;
  for (const DepthParameter& p : fit.parameters) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "<br>", HtmlEscape(p.name),
                        HtmlEscape(WithInterval(p.value, 4)));
  }
  return text.empty() ? HtmlEscape(fit.note) : text;
}

std::string HeldOutCell(const DepthFit& fit) {
  std::string text;
  for (const HeldOut& h : fit.held_out) {
    text += fmt::format("{}S = {}: z {:+.1f}", text.empty() ? "" : "<br>", h.stages, h.z);
  }
  return text.empty() ? "-" : text;
}

void AddModels(const std::string& codecs, const DepthComparison& depths, Cells& rows) {
  for (const DepthFit& fit : depths.fits) {
    rows.push_back({codecs, std::string(ToString(fit.model)), Parameters(fit),
                    fit.aicc ? fmt::format("{:.1f}", *fit.aicc) : "-", HeldOutCell(fit),
                    fit.model == depths.chosen ? HtmlEscape(depths.Words()) : ""});
  }
}

std::string DepthTable(const CampaignAnalysis& a) {
  Cells rows;
  for (const Family& family : a.families) {
    if (family.depths) AddModels(HtmlEscape(family.codecs), *family.depths, rows);
  }
  for (const DirectionFinding& d : a.findings.directions) {
    if (!d.depths) continue;
    const std::string codecs = d.forward_codec + " / " + d.backward_codec;
    AddModels(HtmlEscape(codecs) + ", all directions", *d.depths, rows);
  }
  if (rows.empty()) return "";
  return "<h3>How the loss grows with depth</h3><p class=\"note\">-ln &eta; as M1: a K; M2: "
         "a<sub>f</sub> K<sub>f</sub> + a<sub>b</sub> K<sub>b</sub>; M3: -ln(1 - b K); M4: a "
         "K<sup>&gamma;</sup>; M5: c (1 - e<sup>-K/2&tau;</sup>) &tau;. Another model than M1 is "
         "preferred only where its AICc is lower by more than 4 and no held-out depth is missed by "
         "more than two standard errors; z = (predicted - measured) / se.</p>" +
         HtmlTable({"codec forward / backward", "model", "parameters", "AICc", "held out", ""},
                   rows);
}

std::string DirectionTable(const CampaignAnalysis& a) {
  Cells rows;
  const auto cell = [](const std::optional<Measured>& x) {
    return x ? IntervalCell(*x, 4) : std::string("-");
  };
  for (const DirectionFinding& d : a.findings.directions) {
    std::string interactions;
    for (const DirectionFinding::Interaction& i : d.interactions) {
      interactions += fmt::format("{}S = {}: {}", interactions.empty() ? "" : "<br>", i.stages,
                                  HtmlEscape(i.ln ? WithInterval(*i.ln, 4) : i.note));
    }
    rows.push_back({HtmlEscape(d.forward_codec + " / " + d.backward_codec),
                    fmt::format("{}", d.seeds), cell(d.q_forward), cell(d.q_backward),
                    cell(d.q_symmetric), interactions,
                    HtmlEscape(d.note.empty() ? d.Words() : d.note)});
  }
  if (rows.empty()) return "";
  return "<h3>Directions</h3><p class=\"note\">From arms with one direction compressed, K = S - 1. "
         "Symmetric: exp(-(a<sub>f</sub> + a<sub>b</sub>)/2). Interaction: ln &eta; of both less "
         "that of each; where it excludes 0, only arms with both feed the simulator.</p>" +
         HtmlTable({"codec forward / backward", "seeds", "q<sub>f</sub>", "q<sub>b</sub>",
                    "symmetric q", "interaction", ""},
                   rows);
}

std::string DoseTable(const Findings& f) {
  Cells rows;
  const auto cell = [](const std::optional<Measured>& x, int digits) {
    return x ? IntervalCell(*x, digits) : std::string("-");
  };
  for (const auto& [name, dose] :
       {std::pair("codecs", &f.dose), {"Gaussian noise", &f.noise_dose}}) {
    if (!dose->kappa) continue;
    rows.push_back({name, fmt::format("{}", dose->arms.size()), fmt::format("{}", dose->seeds),
                    fmt::format("{:.3g} to {:.3g}", dose->smallest, dose->largest),
                    cell(dose->kappa, 3), cell(dose->forward, 3), cell(dose->backward, 3),
                    cell(dose->exponent, 2)});
  }
  if (rows.empty()) return "";
  std::string text =
      "<h3>Dose and response</h3><p class=\"note\">&Delta; loss = &kappa; &times; NMSE of boundary "
      "tensors, summed over boundaries; exponent: of &Delta; = k NMSE<sup>p</sup>. Nothing is "
      "predicted outside of the range.</p>" +
      HtmlTable({"arms with", "arms", "seeds", "summed NMSE", "&kappa;, nat", "&kappa; forward",
                 "&kappa; backward", "exponent"},
                rows);
  if (f.kappa_ratio) {
    text += fmt::format("<p class=\"note\">&kappa; of codecs over that of noise: {}</p>\n",
                        HtmlEscape(WithInterval(*f.kappa_ratio, 2)));
  }
  return text;
}

std::string TestTable(const CampaignAnalysis& a) {
  const ArmResult* primary = FindArm(a, a.findings.primary);
  if (primary == nullptr) return "";
  Cells rows = {{"primary", HtmlEscape(primary->arm),
                 primary->off ? "ln &eta; " + HtmlEscape(WithInterval(primary->off->ln_eta, 4))
                              : HtmlEscape(primary->note),
                 "", ""}};
  for (const SecondaryTest& t : a.findings.secondary) {
    rows.push_back(
        {"secondary: " + HtmlEscape(t.name), HtmlEscape(t.arm), HtmlEscape(t.note),
         fmt::format("{:.3g}", t.p),
         fmt::format("{:.3g}, {}", t.adjusted, t.adjusted <= 0.05 ? "shown" : "not shown")});
  }
  return "<h3>Tests named beforehand</h3><p class=\"note\">Two-sided, 5 %, against no loss; the "
         "secondary ones by Holm over all of them. Everything else on this page is "
         "exploratory.</p>" +
         HtmlTable({"test", "arm", "", "p", "p by Holm"}, rows);
}

std::string OnOffTable(const CampaignAnalysis& a) {
  Cells rows;
  for (const ArmResult& arm : a.arms) {
    if (!arm.on_off) continue;
    rows.push_back({HtmlEscape(arm.arm), fmt::format("{}", arm.outcomes.size()),
                    IntervalCell(*arm.on_off, 4)});
  }
  if (rows.empty()) return "";
  return "<h3>Codec off against on</h3><p class=\"note\">Held-out loss of the same weights with "
         "the codec off less that with it on, paired by seed (losses of single blocks are not "
         "recorded).</p>" +
         HtmlTable({"arm", "seeds", "off - on, nat"}, rows);
}

std::vector<std::string> FactorRow(const std::string& name, const std::optional<Measured>& x,
                                   int64_t seeds, const std::string& note) {
  return {HtmlEscape(name), fmt::format("{}", seeds), x ? IntervalCell(*x, 4) : HtmlEscape(note)};
}

std::string ContrastTable(const CampaignAnalysis& a) {
  Cells rows;
  for (const ContrastFinding& c : a.findings.contrasts) {
    rows.push_back(FactorRow(c.name, c.value, c.seeds, c.note));
  }
  if (rows.empty()) return "";
  return "<h3>Position and learning rate</h3><p class=\"note\">M6: -ln &eta; as a sum over cuts of "
         "a(l/L), from arms with one cut each. At the best rates each side has the rate of its own "
         "lowest loss.</p>" +
         HtmlTable({"what", "seeds", "value"}, rows);
}

std::string FactorTable(const CampaignAnalysis& a) {
  Cells rows;
  for (const DilocoFactor& f : a.diloco.factors) {
    const std::string of = f.kind == DilocoFactor::Kind::kInteraction ? "ln &eta;: " : "";
    rows.push_back(FactorRow(f.name, f.eta ? f.eta : f.ln, f.seeds, f.note));
    rows.back().front() = of + rows.back().front();
  }
  if (rows.empty()) return "";
  for (const OuterForms& forms : a.diloco.forms) {
    std::string text;
    for (const OuterForm& form : forms.forms) {
      text += fmt::format("{}{}", text.empty() ? "" : "<br>", HtmlEscape(form.name));
      for (const auto& [parameter, value] : form.parameters) {
        text += fmt::format(", {} {}", parameter, HtmlEscape(WithInterval(value, 4)));
      }
      if (form.aicc) text += fmt::format(", AICc {:.1f}", *form.aicc);
    }
    rows.push_back(
        {HtmlEscape(forms.what + ": " + forms.Words()), fmt::format("{}", forms.seeds), text});
  }
  return "<h3>DiLoCo, factor by factor</h3><p class=\"note\">Global-batch-matched where it does "
         "not "
         "say local.</p>" +
         HtmlTable({"factor", "seeds", "value"}, rows);
}

}  // namespace

std::string FindingsPart(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) return "";
  return TestTable(a) + DepthTable(a) + DirectionTable(a) + ContrastTable(a) + FactorTable(a) +
         OnOffTable(a) + DoseTable(a.findings);
}

}  // namespace longhaul
