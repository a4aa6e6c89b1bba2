#include "experiments/estimates/findings_tables.h"

#include "experiments/estimates/time_to_loss.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {
namespace {

using TableRow = std::vector<std::string>;

std::string JoinedCell(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}
std::string CellOfMeasured(const std::optional<Measured>& x, int digits) {
  return x ? WithInterval(*x, digits) : "-";
}

ReportTable TestsFound(const CampaignAnalysis& a) {
  ReportTable table{.title = "Tests named beforehand",
                    .header = {"test", "arm", "", "p", "p by Holm"},
                    .rows = {}};
  const ArmResult* primary = FindArm(a, a.findings.primary);
  if (primary == nullptr) return table;
  table.rows.push_back(
      {"primary", primary->arm,
       primary->off ? "ln eta " + WithInterval(primary->off->ln_eta, 4) : primary->note, "", ""});
  std::set<std::string> named = {primary->arm};
  for (const SecondaryTest& t : a.findings.secondary) {
    named.insert(t.arm);
    table.rows.push_back(
        {"secondary: " + t.name, t.arm, t.note, fmt::format("{:.3g}", t.p),
         fmt::format("{:.3g}, {}", t.adjusted, t.adjusted <= 0.05 ? "shown" : "not shown")});
  }
  std::vector<std::string> rest;
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kArm && !named.contains(arm.arm)) rest.push_back(arm.arm);
  }
  table.notes = {fmt::format(
      "Two-sided, 5 %, against no loss; the secondary ones by Holm over all of them. Everything "
      "else is exploratory{}.",
      rest.empty() ? "" : fmt::format(", arms {}", fmt::join(rest, ", ")))};
  return table;
}

void AddDepthsFound(const std::string& codecs, const DepthComparison& depths,
                    std::vector<TableRow>& rows) {
  for (const DepthFit& fit : depths.fits) {
    std::vector<std::string> parameters, held, words;
    for (const DepthParameter& p : fit.parameters) {
      parameters.push_back(p.name + " " + WithInterval(p.value, 4));
    }
    for (const HeldOut& h : fit.held_out) {
      held.push_back(fmt::format("S = {}: z {:+.1f}", h.stages, h.z));
    }
    if (fit.model == depths.chosen) words.push_back(depths.Words());
    if (!fit.note.empty()) (parameters.empty() ? parameters : words).push_back(fit.note);
    rows.push_back({codecs, std::string(ToString(fit.model)), JoinedCell(parameters),
                    fit.aicc ? fmt::format("{:.1f}", *fit.aicc) : "-",
                    held.empty() ? "-" : JoinedCell(held), JoinedCell(words)});
  }
}

ReportTable DepthsFound(const CampaignAnalysis& a) {
  ReportTable table{
      .title = "How the loss grows with depth",
      .header = {"codec forward / backward", "model", "parameters", "AICc", "held out", ""},
      .rows = {},
      .notes = {"-ln eta as M1: a K; M2: a_f K_f + a_b K_b; M3: -ln(1 - b K); M4: a K^gamma; M5: c "
                "(1 - exp(-K / 2 tau)) tau. Another model than M1 is preferred only where its AICc "
                "is lower by more than 4 and no held-out depth is missed by more than two standard "
                "errors; z = (predicted - measured) / se."}};
  for (const Family& family : a.families) {
    if (family.depths) AddDepthsFound(family.codecs, *family.depths, table.rows);
  }
  for (const DirectionFinding& d : a.findings.directions) {
    if (!d.depths) continue;
    AddDepthsFound(fmt::format("{} / {}, all directions", d.forward_codec, d.backward_codec),
                   *d.depths, table.rows);
  }
  return table;
}

ReportTable DirectionsFound(const CampaignAnalysis& a) {
  ReportTable table{
      .title = "Directions",
      .header = {"codec forward / backward", "seeds", "q_f", "q_b", "symmetric q", "interaction",
                 ""},
      .rows = {},
      .notes = {"From arms with one direction compressed, K = S - 1. Symmetric: exp(-(a_f + a_b) / "
                "2). Interaction: ln eta of both less that of each; where it excludes 0, only arms "
                "with both feed the simulator."}};
  for (const DirectionFinding& d : a.findings.directions) {
    std::vector<std::string> interactions;
    for (const DirectionFinding::Interaction& i : d.interactions) {
      interactions.push_back(
          fmt::format("S = {}: {}", i.stages, i.ln ? WithInterval(*i.ln, 4) : i.note));
    }
    table.rows.push_back({d.forward_codec + " / " + d.backward_codec, fmt::format("{}", d.seeds),
                          CellOfMeasured(d.q_forward, 4), CellOfMeasured(d.q_backward, 4),
                          CellOfMeasured(d.q_symmetric, 4), JoinedCell(interactions),
                          d.note.empty() ? d.Words() : d.note});
  }
  return table;
}

ReportTable ContrastsFound(const CampaignAnalysis& a) {
  ReportTable table{.title = "Position and learning rate",
                    .header = {"what", "seeds", "value"},
                    .rows = {},
                    .notes = {"M6: -ln eta as a sum over cuts of a(l/L), from arms with one cut "
                              "each. At the best rates each side has the rate of its own lowest "
                              "loss."}};
  for (const ContrastFinding& c : a.findings.contrasts) {
    table.rows.push_back(
        {c.name, fmt::format("{}", c.seeds), c.value ? WithInterval(*c.value, 4) : c.note});
  }
  return table;
}

ReportTable DilocoFound(const CampaignAnalysis& a) {
  ReportTable table{.title = "DiLoCo, factor by factor",
                    .header = {"factor", "seeds", "value"},
                    .rows = {},
                    .notes = {"Exploratory, global-batch-matched where it does not say local."}};
  for (const DilocoFactor& f : a.diloco.factors) {
    const std::optional<Measured>& value = f.eta ? f.eta : f.ln;
    const bool interaction = f.kind == DilocoFactor::Kind::kInteraction;
    table.rows.push_back({(interaction ? "ln eta: " : "") + f.name, fmt::format("{}", f.seeds),
                          value ? WithInterval(*value, 4) : f.note});
  }
  if (table.rows.empty()) return table;
  for (const OuterForms& forms : a.diloco.forms) {
    for (const OuterForm& form : forms.forms) {
      std::vector<std::string> parts;
      for (const auto& [parameter, value] : form.parameters) {
        parts.push_back(parameter + " " + WithInterval(value, 4));
      }
      parts.push_back(form.aicc ? fmt::format("AICc {:.1f}", *form.aicc) : form.note);
      table.rows.push_back(
          {forms.what + ": " + form.name, fmt::format("{}", forms.seeds), JoinedCell(parts)});
    }
    table.notes.push_back(forms.what + ": " + forms.Words() + ".");
  }
  return table;
}

ReportTable OnOffFound(const CampaignAnalysis& a) {
  ReportTable table{.title = "Codec off against on",
                    .header = {"arm", "seeds", "off - on, nat"},
                    .rows = {},
                    .notes = {"Held-out loss of the same weights with the codec off less that with "
                              "it on, paired by seed (losses of single blocks are not recorded)."}};
  for (const ArmResult& arm : a.arms) {
    if (!arm.on_off) continue;
    table.rows.push_back(
        {arm.arm, fmt::format("{}", arm.outcomes.size()), WithInterval(*arm.on_off, 4)});
  }
  return table;
}

ReportTable DoseFound(const Findings& f) {
  ReportTable table{
      .title = "Dose and response",
      .header = {"arms with", "arms", "seeds", "summed NMSE", "kappa, nat", "kappa forward",
                 "kappa backward", "exponent"},
      .rows = {},
      .notes = {
          "Delta loss = kappa x NMSE of boundary tensors, summed over boundaries; exponent p: "
          "of Delta = k NMSE^p. Nothing is predicted outside of the range."}};
  for (const auto& [name, dose] :
       {std::pair("codecs", &f.dose), {"Gaussian noise", &f.noise_dose}}) {
    if (!dose->kappa) continue;
    table.rows.push_back({name, fmt::format("{}", dose->arms.size()),
                          fmt::format("{}", dose->seeds),
                          fmt::format("{:.3g} to {:.3g}", dose->smallest, dose->largest),
                          CellOfMeasured(dose->kappa, 3), CellOfMeasured(dose->forward, 3),
                          CellOfMeasured(dose->backward, 3),
                          dose->exponent ? WithInterval(*dose->exponent, 2) : dose->note});
  }
  if (f.kappa_ratio) {
    table.notes.push_back("kappa of codecs over that of noise: " + WithInterval(*f.kappa_ratio, 2));
  } else if (!f.kappa_ratio_note.empty()) {
    table.notes.push_back("kappa of codecs over that of noise: none, " + f.kappa_ratio_note);
  }
  return table;
}

ReportTable TimesFound(const Findings& f) {
  ReportTable table{
      .title = fmt::format("Time to a training loss of {:g} nat (simulated)", f.target_loss_nat),
      .header = {"arm", "reached by", "hours (simulated)", "tokens, millions"},
      .rows = {},
      .notes = {fmt::format(
          "reached: the mean of {} steps, over groups, is at or below it; t over seeds, and no mean "
          "where a seed did not get there. Hours of the simulated clock are no evidence of real ones.",
          kStepsOfALoss)}};
  const auto in = [](std::optional<Measured> x, double unit) {
    if (!x) return std::string("-");
    x->value /= unit;
    if (x->interval) x->interval->low /= unit, x->interval->high /= unit;
    return WithInterval(*x, 4);
  };
  for (const TimeToLoss& t : f.times_to_loss) {
    table.rows.push_back({t.arm, fmt::format("{} of {}", t.reached, t.seeds),
                          in(t.simulated_s, 3600), in(t.tokens, 1e6)});
  }
  return table;
}

}  // namespace

std::vector<ReportTable> FindingsTables(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) return {};
  std::vector<ReportTable> tables = {
      TestsFound(a),  DepthsFound(a), DirectionsFound(a),    ContrastsFound(a),
      DilocoFound(a), OnOffFound(a),  DoseFound(a.findings), TimesFound(a.findings)};
  std::erase_if(tables, [](const ReportTable& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace longhaul
