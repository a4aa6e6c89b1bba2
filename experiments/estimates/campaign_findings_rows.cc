// Directions, depth models, dose and the families of tests, as rows of the record.
#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_rows.h"
#include "experiments/estimates/estimate_rows.h"
#include "experiments/estimates/time_to_loss.h"

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
  for (const TimeToLoss& t : f.times_to_loss) {
    const std::string note = fmt::format("simulated; training loss {:g} nat, mean of {} steps",
                                         f.target_loss_nat, kStepsOfALoss);
    if (t.simulated_s) {
      AddEstimate(rows, t.arm, "", "time to loss", "s", *t.simulated_s, t.seeds, note);
      AddEstimate(rows, t.arm, "", "tokens to loss", "tokens", *t.tokens, t.seeds, note);
    } else {
      rows.push_back(
          EstimateWithout(t.arm, "", "time to loss", "s", t.seeds,
                          fmt::format("{}; {} of {} seeds reached it", note, t.reached, t.seeds)));
    }
  }
  for (const SecondaryTest& t : f.secondary) {
    AddEstimate(rows, t.arm, "off", t.name + ", p by Holm", "1", {t.adjusted, {}}, 0,
                fmt::format("secondary; p {:.6g}{}", t.p, t.note.empty() ? "" : "; " + t.note));
  }
}

}  // namespace longhaul
