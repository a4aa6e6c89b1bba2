// Directions, depth models, dose and the families of tests, as rows and as lines.
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_text.h"
#include "experiments/estimates/estimate_rows.h"

namespace longhaul {
namespace {

void AddDepths(const std::string& name, const DepthComparison& depths,
               std::vector<EstimateRow>& rows) {
  for (const DepthFit& fit : depths.fits) {
    const std::string model(ToString(fit.model));
    for (const DepthParameter& p : fit.parameters) {
      AddEstimate(rows, name, "off", model + " " + p.name, "1", p.value, depths.seeds, fit.note);
    }
    if (fit.theta.empty()) {
      rows.push_back(EstimateWithout(name, "off", model, "1", depths.seeds, fit.note));
    }
    if (fit.aicc) {
      AddEstimate(rows, name, "off", model + " AICc", "1", {*fit.aicc, {}}, depths.seeds,
                  fit.model == depths.chosen ? depths.Words() : "seed effects counted");
    }
    for (const HeldOut& h : fit.held_out) {
      AddEstimate(
          rows, name, "off",
          fmt::format("{} z at S = {}, K_f = {}, K_b = {}", model, h.stages, h.forward, h.backward),
          "standard errors", {h.z, {}}, depths.seeds,
          fmt::format("-ln eta predicted {:.4f}, measured {:.4f}", h.predicted, h.measured));
    }
  }
}

void AddDirections(const std::string& name, const DirectionFinding& d,
                   std::vector<EstimateRow>& rows) {
  if (!d.note.empty()) {
    rows.push_back(EstimateWithout(name, "off", "q_symmetric", "per crossing", d.seeds, d.note));
  }
  for (const auto& [quantity, q] :
       {std::pair("q_f", &d.q_forward), {"q_b", &d.q_backward}, {"q_symmetric", &d.q_symmetric}}) {
    if (*q) AddEstimate(rows, name, "off", quantity, "per crossing", **q, d.seeds, "");
  }
  for (const DirectionFinding::Interaction& i : d.interactions) {
    const std::string quantity = fmt::format("direction interaction at S = {}", i.stages);
    if (i.ln) {
      AddEstimate(rows, name, "off", quantity, "1", *i.ln, i.seeds, "");
    } else {
      rows.push_back(EstimateWithout(name, "off", quantity, "1", i.seeds, i.note));
    }
  }
  if (d.depths) AddDepths(name, *d.depths, rows);
}

void AddDose(const std::string& name, const DoseFit& dose, std::vector<EstimateRow>& rows) {
  for (const auto& [quantity, x, unit] : {std::tuple("kappa", &dose.kappa, "nat per summed NMSE"),
                                          {"kappa_f", &dose.forward, "nat per summed NMSE"},
                                          {"kappa_b", &dose.backward, "nat per summed NMSE"},
                                          {"exponent", &dose.exponent, "1"}}) {
    if (!*x) continue;
    AddEstimate(rows, name, "off", quantity, unit, **x, dose.seeds,
                fmt::format("summed NMSE {:.3g} to {:.3g}", dose.smallest, dose.largest));
  }
}

std::string DepthLines(const Family& family) {
  if (!family.depths) return "";
  std::string text = fmt::format("depth of {}: {}\n", family.codecs, family.depths->Words());
  for (const DepthFit& fit : family.depths->fits) {
    if (fit.theta.empty()) continue;
    std::vector<std::string> values, held;
    for (const DepthParameter& p : fit.parameters) {
      values.push_back(fmt::format("{} {}", p.name, WithInterval(p.value, 4)));
    }
    for (const HeldOut& h : fit.held_out) {
      held.push_back(fmt::format("S = {} z {:+.1f}", h.stages, h.z));
    }
    text += fmt::format("  {}: {}; AICc {}; held out: {}{}\n", ToString(fit.model),
                        fmt::join(values, ", "),
                        fit.aicc ? fmt::format("{:.1f}", *fit.aicc) : std::string("-"),
                        held.empty() ? std::string("-") : fmt::format("{}", fmt::join(held, ", ")),
                        fit.note.empty() ? "" : "; " + fit.note);
  }
  return text;
}

std::string DirectionLines(const DirectionFinding& d) {
  std::string text = fmt::format("directions of {} / {}: ", d.forward_codec, d.backward_codec);
  if (!d.q_symmetric) return text + d.note + "\n";
  text += fmt::format("q_f {}, q_b {}, symmetric q {}; {}\n", WithInterval(*d.q_forward, 4),
                      WithInterval(*d.q_backward, 4), WithInterval(*d.q_symmetric, 4), d.Words());
  for (const DirectionFinding::Interaction& i : d.interactions) {
    text += fmt::format("  interaction at S = {}: ln eta {}\n", i.stages,
                        i.ln ? WithInterval(*i.ln, 4) : i.note);
  }
  if (d.depths) text += fmt::format("  all directions together: {}\n", d.depths->Words());
  return text;
}

std::string DoseLines(const Findings& f) {
  std::string text;
  for (const auto& [name, dose] :
       {std::pair("codecs", &f.dose), {"Gaussian noise", &f.noise_dose}}) {
    if (!dose->kappa) continue;
    text += fmt::format("dose-response of {} ({} arms, summed NMSE {:.2g} to {:.2g}): kappa {} nat",
                        name, dose->arms.size(), dose->smallest, dose->largest,
                        WithInterval(*dose->kappa, 3));
    if (dose->forward) {
      text += fmt::format(", forward {}, backward {}", WithInterval(*dose->forward, 3),
                          WithInterval(*dose->backward, 3));
    }
    text += dose->exponent ? fmt::format(", exponent {}\n", WithInterval(*dose->exponent, 2))
                           : fmt::format(", {}\n", dose->note);
  }
  if (f.kappa_ratio) {
    text +=
        fmt::format("kappa of codecs over that of noise: {}\n", WithInterval(*f.kappa_ratio, 2));
  } else if (!f.kappa_ratio_note.empty()) {
    text += "kappa of codecs over that of noise: none, " + f.kappa_ratio_note + "\n";
  }
  return text;
}

std::string ContrastLines(const Findings& f) {
  std::string text;
  for (const ContrastFinding& c : f.contrasts) {
    text += fmt::format("{}: {}\n", c.name, c.value ? WithInterval(*c.value, 4) : c.note);
  }
  return text;
}

std::string OnOffLines(const CampaignAnalysis& a) {
  std::string text;
  for (const ArmResult& arm : a.arms) {
    if (!arm.on_off) continue;
    text += fmt::format("{}{} {}", text.empty() ? "loss off - on, nat, over seeds: " : "; ",
                        arm.arm, WithInterval(*arm.on_off, 4));
  }
  return text.empty() ? text : text + "\n";
}

std::string TestLines(const CampaignAnalysis& a) {
  const Findings& f = a.findings;
  const ArmResult* primary = FindArm(a, f.primary);
  if (primary == nullptr) return "";
  std::string text =
      fmt::format("primary, {}: ln eta {}\n", primary->arm,
                  primary->off ? WithInterval(primary->off->ln_eta, 4) : primary->note);
  std::set<std::string> named = {primary->arm};
  for (const SecondaryTest& t : f.secondary) {
    if (!t.arm.empty()) named.insert(t.arm);
    text += fmt::format("secondary, {}{}: p {:.3g}, by Holm {:.3g}: {}{}\n", t.name,
                        t.arm.empty() ? "" : " (" + t.arm + ")", t.p, t.adjusted,
                        t.adjusted <= 0.05 ? "shown" : "not shown",
                        t.note.empty() ? "" : "; " + t.note);
  }
  std::vector<std::string> rest;
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kArm && !named.contains(arm.arm)) rest.push_back(arm.arm);
  }
  text += fmt::format("exploratory: everything else{}\n",
                      rest.empty() ? "" : fmt::format(", arms {}", fmt::join(rest, ", ")));
  return text;
}

}  // namespace

void AddFindings(const CampaignAnalysis& a, std::vector<EstimateRow>& rows) {
  if (!a.failed_controls.empty()) return;  // an instrument in doubt tells no models apart
  for (const ArmResult& arm : a.arms) {
    if (!arm.on_off) continue;
    AddEstimate(rows, arm.arm, "", "on_off", "nat", *arm.on_off,
                static_cast<int64_t>(arm.outcomes.size()),
                arm.on_off->interval ? "over seeds; losses of blocks are not recorded" : "");
  }
  for (size_t i = 0; i < a.families.size(); ++i) {
    const Family& family = a.families[i];
    if (!family.depths) continue;
    AddDepths(fmt::format("joint {}: {}", i + 1, family.codecs), *family.depths, rows);
  }
  const Findings& f = a.findings;
  for (size_t i = 0; i < f.directions.size(); ++i) {
    const DirectionFinding& d = f.directions[i];
    AddDirections(fmt::format("directions {}: {} / {}", i + 1, d.forward_codec, d.backward_codec),
                  d, rows);
  }
  AddDose("dose: codecs", f.dose, rows);
  AddDose("dose: gauss", f.noise_dose, rows);
  if (f.kappa_ratio) {
    AddEstimate(rows, "dose: codecs", "off", "kappa over gauss", "1", *f.kappa_ratio, f.dose.seeds,
                "");
  }
  for (const ContrastFinding& c : f.contrasts) {
    if (c.value) {
      AddEstimate(rows, "contrasts", "off", c.name, "1", *c.value, c.seeds, "exploratory");
    } else {
      rows.push_back(EstimateWithout("contrasts", "off", c.name, "1", c.seeds, c.note));
    }
  }
  AddDilocoRows(a, rows);
  for (const SecondaryTest& t : f.secondary) {
    AddEstimate(rows, t.arm, "off", t.name + ", p by Holm", "1", {t.adjusted, {}}, 0,
                fmt::format("secondary; p {:.6g}{}", t.p, t.note.empty() ? "" : "; " + t.note));
  }
}

std::string FindingsText(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) return "";
  std::string text;
  for (const Family& family : a.families) text += DepthLines(family);
  for (const DirectionFinding& d : a.findings.directions) text += DirectionLines(d);
  text += OnOffLines(a) + DoseLines(a.findings) + ContrastLines(a.findings) + DilocoLines(a) +
          TestLines(a);
  return text;
}

}  // namespace longhaul
