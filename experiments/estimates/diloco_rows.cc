// DiLoCo's factors as rows and as entries of the calibration.
#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_rows.h"
#include "experiments/estimates/estimate_rows.h"

namespace longhaul {
namespace {

using Kind = DilocoFactor::Kind;
using nlohmann::json;

const Measured* ValueOf(const DilocoFactor& f) {
  if (f.eta) return &*f.eta;
  return f.ln ? &*f.ln : nullptr;
}

json Numbered(const Measured& x) {
  return {{"value", x.value}, {"ci", {x.interval->low, x.interval->high}}};
}

json EtaEntry(int64_t groups, int64_t inner_steps, const Measured& eta, int64_t seeds) {
  return {{"M", groups},
          {"H", inner_steps},
          {"eta", eta.value},
          {"ci", {eta.interval->low, eta.interval->high}},
          {"seeds", seeds}};
}

void AddTotals(const CampaignAnalysis& a, json& out) {
  for (const DilocoCell& cell : a.diloco.cells) {
    const ArmResult* arm = FindArm(a, cell.arm);
    if (!arm->off || arm->off->IsBound() || !arm->off->eta.interval) continue;
    json entry = EtaEntry(cell.groups, cell.inner_steps, arm->off->eta, arm->off->seeds);
    entry["codec"] = cell.codec;
    entry["boundary"] = cell.boundary;
    entry["batch"] = cell.local_batch ? "local-batch-matched" : "global-batch-matched";
    out["eta_diloco"].push_back(std::move(entry));
  }
}

void AddOuterArms(const CampaignAnalysis& a, json& out) {
  for (const OuterArm& outer : a.diloco.outer) {
    const ArmResult* arm = FindArm(a, outer.arm);
    if (!arm->off || arm->off->IsBound() || !arm->off->eta.interval) continue;
    json entry = EtaEntry(outer.groups, outer.inner_steps, arm->off->eta, arm->off->seeds);
    entry["arm"] = outer.arm;
    entry["algorithm"] = outer.algorithm;
    entry["codec"] = outer.codec;
    out["eta_outer"].push_back(std::move(entry));
  }
}

// eta_H of the planner: the smallest M above 1 at each H, as a total.
void AddSplitInnerSteps(const CampaignAnalysis& a, json& out) {
  int64_t m0 = 0;
  for (const DilocoCell& c : a.diloco.cells) {
    const bool plain = !c.local_batch && c.boundary.empty() && c.codec == "none" && c.groups > 1;
    if (plain && (m0 == 0 || c.groups < m0)) m0 = c.groups;
  }
  for (const DilocoCell& c : a.diloco.cells) {
    if (c.local_batch || !c.boundary.empty() || c.codec != "none" || c.groups != m0) continue;
    const ArmResult* arm = FindArm(a, c.arm);
    if (!arm->off || arm->off->IsBound() || !arm->off->eta.interval) continue;
    out["eta_H"].push_back(EtaEntry(c.groups, c.inner_steps, arm->off->eta, arm->off->seeds));
  }
}

}  // namespace

void AddDilocoRows(const CampaignAnalysis& a, std::vector<EstimateRow>& rows) {
  for (const DilocoFactor& f : a.diloco.factors) {
    const Measured* value = ValueOf(f);
    if (value == nullptr) {
      rows.push_back(EstimateWithout("diloco", "off", f.name, "1", f.seeds, f.note));
    } else {
      AddEstimate(rows, "diloco", "off", f.name, "1", *value, f.seeds,
                  f.kind == Kind::kInteraction ? "of ln eta" : "");
    }
  }
  for (const OuterForms& forms : a.diloco.forms) {
    for (const OuterForm& form : forms.forms) {
      const std::string name = fmt::format("{}: {}", forms.what, form.name);
      for (const auto& [parameter, value] : form.parameters) {
        AddEstimate(rows, "diloco", "off", name + ", " + parameter, "1", value, forms.seeds,
                    "exploratory");
      }
      if (form.aicc) {
        AddEstimate(rows, "diloco", "off", name + " AICc", "1", {*form.aicc, {}}, forms.seeds,
                    forms.Words());
      }
    }
  }
}

void AddDilocoCalibration(const CampaignAnalysis& a, json& out) {
  AddTotals(a, out);
  AddOuterArms(a, out);
  AddSplitInnerSteps(a, out);
  for (const DilocoFactor& f : a.diloco.factors) {
    // The planner's factors are of one convention; of the other it gets totals.
    if (f.local_batch || ValueOf(f) == nullptr || !ValueOf(f)->interval) continue;
    if (f.kind == Kind::kSplitReplicas) {
      out["eta_r"].push_back(EtaEntry(f.groups, f.inner_steps, *f.eta, f.seeds));
    } else if (f.kind == Kind::kCodec) {
      json entry = EtaEntry(f.groups, f.inner_steps, *f.eta, f.seeds);
      entry["codec"] = f.codec;
      if (f.ratio <= 0) continue;  // the planner asks for a ratio
      entry["ratio"] = f.ratio;
      out["eta_c"].push_back(std::move(entry));
    } else if (f.kind == Kind::kInteraction) {
      out["interaction"].push_back({{"terms", f.terms},
                                    {"name", f.name},
                                    {"ln", f.ln->value},
                                    {"ci", {f.ln->interval->low, f.ln->interval->high}}});
    } else if (f.kind == Kind::kExponent) {
      out["power_of_H"].push_back({{"M", f.groups}, {"alpha", Numbered(*f.ln)}});
    }
  }
}

}  // namespace longhaul
