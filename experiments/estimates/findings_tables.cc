#include "experiments/estimates/findings_tables.h"

#include "experiments/estimates/time_to_loss.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {
namespace {

using Row = std::vector<Cell>;

Cell JoinedCell(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

Table TestsFound(const CampaignAnalysis& a) {
  Table table{.title = "Tests named beforehand",
              .columns = ColumnsOf("test | arm |  | p | p by Holm")};
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
                    std::vector<Row>& rows) {
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
    rows.push_back({codecs,
                    std::string(ToString(fit.model)),
                    JoinedCell(parameters),
                    {fit.aicc, "{:.1f}"},
                    held.empty() ? "-" : JoinedCell(held),
                    JoinedCell(words)});
  }
}

Table DepthsFound(const CampaignAnalysis& a) {
  Table table{
      .title = "How the loss grows with depth",
      .columns = ColumnsOf("codec forward / backward | model | parameters | AICc | held out | "),
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

Table DirectionsFound(const CampaignAnalysis& a) {
  Table table{
      .title = "Directions",
      .columns = ColumnsOf("codec forward / backward | seeds | q_f | q_b | symmetric q | "
                           "interaction | "),
      .notes = {"From arms with one direction compressed, K = S - 1. Symmetric: exp(-(a_f + a_b) / "
                "2). Interaction: ln eta of both less that of each; where it excludes 0, only arms "
                "with both feed the simulator."}};
  for (const DirectionFinding& d : a.findings.directions) {
    std::vector<std::string> interactions;
    for (const DirectionFinding::Interaction& i : d.interactions) {
      interactions.push_back(
          fmt::format("S = {}: {}", i.stages, i.ln ? WithInterval(*i.ln, 4) : i.note));
    }
    table.Add({d.forward_codec + " / " + d.backward_codec, d.seeds, Cell(d.q_forward, 4),
               Cell(d.q_backward, 4), Cell(d.q_symmetric, 4), JoinedCell(interactions),
               d.note.empty() ? d.Words() : d.note});
  }
  return table;
}

Table ContrastsFound(const CampaignAnalysis& a) {
  Table table{.title = "Position and learning rate",
              .columns = ColumnsOf("what | seeds | value"),
              .notes = {"M6: -ln eta as a sum over cuts of a(l/L), from arms with one cut "
                        "each. At the best rates each side has the rate of its own lowest "
                        "loss."}};
  for (const ContrastFinding& c : a.findings.contrasts) {
    table.rows.push_back({c.name, c.seeds, c.value ? WithInterval(*c.value, 4) : c.note});
  }
  return table;
}

Table DilocoFound(const CampaignAnalysis& a) {
  Table table{.title = "DiLoCo, factor by factor",
              .columns = ColumnsOf("factor | seeds | value"),
              .notes = {"Exploratory, global-batch-matched where it does not say local."}};
  for (const DilocoFactor& f : a.diloco.factors) {
    const std::optional<Measured>& value = f.eta ? f.eta : f.ln;
    const bool interaction = f.kind == DilocoFactor::Kind::kInteraction;
    table.Add({(interaction ? "ln eta: " : "") + f.name, f.seeds,
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
      table.rows.push_back({forms.what + ": " + form.name, forms.seeds, JoinedCell(parts)});
    }
    table.notes.push_back(forms.what + ": " + forms.Words() + ".");
  }
  return table;
}

Table OnOffFound(const CampaignAnalysis& a) {
  Table table{.title = "Codec off against on",
              .columns = ColumnsOf("arm | seeds | off - on, nat"),
              .notes = {"Held-out loss of the same weights with the codec off less that with "
                        "it on, paired by seed (losses of single blocks are not recorded)."}};
  for (const ArmResult& arm : a.arms) {
    if (!arm.on_off) continue;
    table.rows.push_back({arm.arm, arm.outcomes.size(), WithInterval(*arm.on_off, 4)});
  }
  return table;
}

Table DoseFound(const Findings& f) {
  Table table{
      .title = "Dose and response",
      .columns = ColumnsOf("arms with | arms | seeds | summed NMSE | kappa, nat | kappa forward | "
                           "kappa backward | exponent"),
      .notes = {
          "Delta loss = kappa x NMSE of boundary tensors, summed over boundaries; exponent p: "
          "of Delta = k NMSE^p. Nothing is predicted outside of the range."}};
  for (const auto& [name, dose] :
       {std::pair("codecs", &f.dose), {"Gaussian noise", &f.noise_dose}}) {
    if (!dose->kappa) continue;
    table.Add({name, dose->arms.size(), dose->seeds,
               fmt::format("{:.3g} to {:.3g}", dose->smallest, dose->largest), Cell(dose->kappa, 3),
               Cell(dose->forward, 3), Cell(dose->backward, 3),
               dose->exponent ? WithInterval(*dose->exponent, 2) : dose->note});
  }
  if (f.kappa_ratio) {
    table.notes.push_back("kappa of codecs over that of noise: " + WithInterval(*f.kappa_ratio, 2));
  } else if (!f.kappa_ratio_note.empty()) {
    table.notes.push_back("kappa of codecs over that of noise: none, " + f.kappa_ratio_note);
  }
  return table;
}

Table TimesFound(const Findings& f) {
  Table table{
      .title = fmt::format("Time to a training loss of {:g} nat (simulated)", f.target_loss_nat),
      .columns = ColumnsOf("arm | reached by | hours (simulated) | tokens, millions"),
      .notes = {fmt::format(
          "reached: the mean of {} steps, over groups, is at or below it; t over seeds, and no mean "
          "where a seed did not get there. Hours of the simulated clock are no evidence of real ones.",
          kStepsOfALoss)}};
  const auto in = [](std::optional<Measured> x, double unit) -> Cell {
    if (!x) return Cell::None();
    x->value /= unit;
    if (x->interval) x->interval->low /= unit, x->interval->high /= unit;
    return {*x, 4};
  };
  for (const TimeToLoss& t : f.times_to_loss) {
    table.Add({t.arm, fmt::format("{} of {}", t.reached, t.seeds), in(t.simulated_s, 3600),
               in(t.tokens, 1e6)});
  }
  return table;
}

}  // namespace

std::vector<Table> FindingsTables(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) return {};
  std::vector<Table> tables = {TestsFound(a),         DepthsFound(a),        DirectionsFound(a),
                               ContrastsFound(a),     DilocoFound(a),        OnOffFound(a),
                               DoseFound(a.findings), TimesFound(a.findings)};
  std::erase_if(tables, [](const Table& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace longhaul
