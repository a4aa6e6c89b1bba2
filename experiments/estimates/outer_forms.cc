#include "experiments/estimates/outer_forms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {
namespace {

constexpr double kFormLevel = 0.95, kFormPreferredBy = 4;
constexpr double kNoSquares = 1e-24;  // squares a point: data without noise
constexpr size_t kFewestPoints = 3;

using FormTheta = std::span<const double>;
struct Form {
  const char* name;
  std::vector<const char*> parameters;
  std::vector<double> start;
  double (*at)(double x, FormTheta p);
};

std::vector<Form> FormsOf(OuterAxis axis) {
  const Form none{"no trend", {}, {}, [](double, FormTheta) { return 0.0; }};
  if (axis == OuterAxis::kInnerSteps) {
    return {
        none,
        {"H^-alpha", {"alpha"}, {0.01}, [](double x, FormTheta p) { return p[0] * std::log(x); }},
        {"1 - alpha log10 H", {"alpha"}, {0.01}, [](double x, FormTheta p) {
           return -std::log1p(-p[0] * std::log10(x));
         }}};
  }
  return {none,
          {"M^beta", {"beta"}, {0.01}, [](double x, FormTheta p) { return p[0] * std::log(x); }},
          {"M^(beta + c ln M)", {"beta", "c"}, {0.01, 0.001}, [](double x, FormTheta p) {
             return (p[0] + p[1] * std::log(x)) * std::log(x);
           }}};
}

// What is left of y without its seeds' means.
double SquaresAboutSeeds(const std::vector<std::vector<double>>& y) {
  double squares = 0;
  for (const std::vector<double>& row : y) {
    const double mean = Mean(row);
    for (const double value : row) squares += (value - mean) * (value - mean);
  }
  return squares;
}

OuterForm FitForm(const Form& form, std::span<const double> x, const SeedRows& rows) {
  OuterForm out{.name = form.name};
  double squares = SquaresAboutSeeds(rows.y);
  if (!form.parameters.empty()) {
    const PointModel model = [&](FormTheta theta) {
      std::vector<double> m;
      for (const double at : x) m.push_back(form.at(at, theta));
      return m;
    };
    const absl::StatusOr<SeedRegression> fit = FitOverSeeds(rows, model, form.start);
    if (!fit.ok()) {
      out.note = std::string(fit.status().message());
      return out;
    }
    squares = fit->residual_squares;
    for (size_t p = 0; p < form.parameters.size(); ++p) {
      out.parameters.emplace_back(form.parameters[p], fit->Parameter(p, kFormLevel));
    }
  }
  const double points = static_cast<double>(rows.y.size() * x.size());
  const double unknowns = static_cast<double>(form.parameters.size() + rows.y.size()) + 1;
  const double spare = points - unknowns - 1;
  if (spare > 0) {
    out.aicc = points * std::log(std::max(squares / points, kNoSquares)) + 2 * unknowns +
               2 * unknowns * (unknowns + 1) / spare;
  }
  return out;
}

// Of the cells with one value of the other axis: losses by x, and by seed.
using Line = std::map<int64_t, const ArmResult*>;

// Rows of the seeds that every point has: -ln eta, or ln loss; empty where there are none.
std::vector<std::vector<double>> RowsOf(const CampaignAnalysis& a, OuterAxis axis,
                                        const Line& line) {
  std::vector<ArmPair> pairs;
  for (const auto& [x, arm] : line) {
    pairs.push_back(
        {Losses(*FindArm(a, arm->reference), EvalCodec::kOff), Losses(*arm, EvalCodec::kOff)});
  }
  const absl::StatusOr<LnEtaRows> ln_eta = LnEtaBySeed(*a.curve, pairs);
  std::vector<std::vector<double>> rows;
  for (size_t j = 0; ln_eta.ok() && j < ln_eta->seeds.size(); ++j) {
    rows.emplace_back();
    for (size_t i = 0; i < pairs.size(); ++i) {
      rows.back().push_back(axis == OuterAxis::kInnerSteps
                                ? -ln_eta->pseudo[i][j]
                                : std::log(pairs[i].arm.at(ln_eta->seeds[j])));
    }
  }
  return rows;
}

void AddLines(const CampaignAnalysis& a, OuterAxis axis, bool local_batch,
              std::vector<OuterForms>& out) {
  std::map<int64_t, Line> lines;  // by the other axis
  for (const DilocoCell& cell : a.diloco.cells) {
    const bool of_this = cell.local_batch == local_batch || cell.groups == 1;
    const ArmResult* arm = FindArm(a, cell.arm);
    if (!of_this || !cell.boundary.empty() || cell.codec != "none" || arm->lost > 0) continue;
    if (!arm->off || (axis == OuterAxis::kInnerSteps && arm->off->IsBound())) continue;
    if (axis == OuterAxis::kInnerSteps) {
      // One group alone is of both conventions, and stands with the shared batch.
      if (cell.local_batch == local_batch) lines[cell.groups].emplace(cell.inner_steps, arm);
    } else {
      lines[cell.inner_steps].emplace(cell.groups, arm);
    }
  }
  for (const auto& [other, line] : lines) {
    if (line.size() < kFewestPoints) continue;
    std::vector<double> x;
    for (const auto& [at, arm] : line) x.push_back(static_cast<double>(at));
    const std::string what = fmt::format(
        "{}{}",
        axis == OuterAxis::kInnerSteps ? "-ln eta over H at M = " : "ln loss over M at H = ",
        other);
    const auto rows = RowsOf(a, axis, line);
    if (rows.size() < 2) continue;
    out.push_back(CompareOuterForms(axis, what + (local_batch ? ", local batch" : ""), x, rows));
  }
}

}  // namespace

std::string OuterForms::Words() const {
  const OuterForm* best = nullptr;
  for (const OuterForm& form : forms) {
    if (form.aicc && (best == nullptr || *form.aicc < *best->aicc)) best = &form;
  }
  if (best == nullptr) return "too few points to compare forms";
  std::string alike;
  for (const OuterForm& form : forms) {
    if (&form == best || !form.aicc || *form.aicc - *best->aicc > kFormPreferredBy) continue;
    alike += (alike.empty() ? "" : ", ") + form.name;
  }
  return best->name + (alike.empty() ? " is preferred to the others: AICc lower by more than 4"
                                     : " fits best, and cannot be told from " + alike);
}

OuterForms CompareOuterForms(OuterAxis axis, std::string what, std::span<const double> x,
                             const std::vector<std::vector<double>>& y) {
  OuterForms out{.what = std::move(what), .seeds = static_cast<int64_t>(y.size())};
  const SeedRows rows{.y = y};
  for (const Form& form : FormsOf(axis)) out.forms.push_back(FitForm(form, x, rows));
  return out;
}

std::vector<OuterForms> FitOuterForms(const CampaignAnalysis& a) {
  std::vector<OuterForms> out;
  if (!a.curve) return out;
  AddLines(a, OuterAxis::kInnerSteps, false, out);
  AddLines(a, OuterAxis::kReplicas, false, out);
  AddLines(a, OuterAxis::kInnerSteps, true, out);
  return out;
}

}  // namespace longhaul
