#include "experiments/estimates/contrast_findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

// Reference, forward and backward codec: what arms of one finding share.
using ArmNames = std::tuple<std::string, std::string, std::string>;

struct ArmPlace {
  std::vector<double> cuts;  // l/L
  double lr = 0;
};

// Of the arm's first run; no cuts where the spec cannot be read.
ArmPlace PlaceOf(const ArmResult& arm) {
  ArmPlace out;
  const absl::StatusOr<TomlValue> tree =
      ParseToml(arm.outcomes.empty() ? "" : arm.outcomes.front().run.spec_toml, "record");
  if (!tree.ok()) return out;
  if (const double* lr = FindAs<double>(*tree, "train.lr")) out.lr = *lr;
  const auto* count = FindAs<int64_t>(*tree, "model.blocks");
  if (count == nullptr) return out;
  const auto* list = FindAs<TomlValue::Array>(*tree, "schedule.cuts");
  for (int64_t b = 1; list == nullptr && b < arm.stages; ++b) {
    out.cuts.push_back(static_cast<double>(b) / static_cast<double>(arm.stages));
  }
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* cut = std::get_if<int64_t>(&(*list)[i].value);
    if (cut != nullptr) {
      out.cuts.push_back(static_cast<double>(*cut) / static_cast<double>(*count));
    }
  }
  return out;
}

class ContrastsOfArms {
 public:
  explicit ContrastsOfArms(CampaignAnalysis& a) : a_(a) {
    for (const ArmResult& arm : a.arms) {
      if (arm.HasQ() && !arm.outcomes.empty()) arms_.emplace_back(&arm, PlaceOf(arm));
    }
  }

  void Collect() {
    std::map<ArmNames, std::map<double, const ArmResult*>> alone;  // by where the one cut is
    for (const auto& [arm, spec] : arms_) {
      if (spec.cuts.size() == 1) alone[PairOf(*arm)].emplace(spec.cuts.front(), arm);
    }
    for (const auto& [pair, at] : alone) {
      if (at.size() < 3) continue;
      AddPositions(at);
      for (const auto& [arm, spec] : arms_) {
        if (PairOf(*arm) == pair && spec.cuts.size() > 1) AddSum(*arm, spec, at);
      }
    }
    CollectRates();
  }

 private:
  using Weighted = std::pair<double, const ArmResult*>;

  static ArmNames PairOf(const ArmResult& arm) {
    return {arm.reference, arm.forward_codec, arm.backward_codec};
  }
  static std::string Codecs(const ArmResult& arm) {
    return arm.forward_codec + " / " + arm.backward_codec;
  }

  void AddTerms(const std::string& name, const std::vector<EtaTerm>& terms, std::string note) {
    ContrastFinding out{.name = name};
    if (note.empty() && !a_.curve) note = a_.curve_note;
    out.note = note;
    if (note.empty()) {
      const absl::StatusOr<EtaContrast> x = EstimateContrast(*a_.curve, terms);
      if (x.ok()) {
        out.value = x->ln;
        out.seeds = x->seeds;
      } else {
        out.note = std::string(x.status().message());
      }
    }
    a_.findings.contrasts.push_back(std::move(out));
  }

  void Add(const std::string& name, const std::vector<Weighted>& arms) {
    std::vector<EtaTerm> terms;
    std::string note;
    for (const auto& [weight, arm] : arms) {
      const ArmResult* reference = FindArm(a_, arm->reference);
      if (!arm->note.empty()) note = fmt::format("arm '{}': {}", arm->arm, arm->note);
      if (reference == nullptr) continue;
      terms.push_back({weight, Losses(*reference, EvalCodec::kOff), Losses(*arm, EvalCodec::kOff)});
    }
    AddTerms(name, terms, note);
  }

  // What a least squares fit of -ln eta on 1, v, v^2 makes of each arm.
  void AddPositions(const std::map<double, const ArmResult*>& at) {
    const double n = static_cast<double>(at.size());
    double mean = 0, squares = 0, cubes = 0, mean_square = 0;
    for (const auto& [u, arm] : at) mean += u / n;
    for (const auto& [u, arm] : at) {
      const double v = u - mean;
      squares += v * v;
      cubes += v * v * v;
      mean_square += v * v / n;
    }
    std::vector<Weighted> tilt, bow;
    double bow_squares = 0;
    for (const auto& [u, arm] : at) {
      const double v = u - mean, p2 = v * v - mean_square - cubes / squares * v;
      tilt.emplace_back(-v / squares, arm);
      bow.emplace_back(-2 * p2, arm);
      bow_squares += p2 * p2;
    }
    for (Weighted& w : bow) w.first /= bow_squares;
    const std::string codecs = Codecs(*at.begin()->second);
    Add(fmt::format("M6, tilt of -ln eta over l/L, {}", codecs), tilt);
    Add(fmt::format("M6, bow of -ln eta over l/L, {}", codecs), bow);
  }

  void AddSum(const ArmResult& arm, const ArmPlace& spec,
              const std::map<double, const ArmResult*>& at) {
    std::vector<Weighted> arms = {{-1, &arm}};
    for (const double cut : spec.cuts) {
      const auto alone = at.find(cut);
      if (alone == at.end()) return;  // a cut that no arm has alone
      arms.emplace_back(1, alone->second);
    }
    Add(fmt::format("M6, -ln eta of {} less the sum of its {} cuts alone", arm.arm,
                    spec.cuts.size()),
        arms);
  }

  // At another rate on both sides, and nothing else.
  static bool OtherRate(const ArmResult& reference) {
    return reference.changes.size() == 1 && reference.changes.front().key == "train.lr";
  }

  static double MeanLoss(const ArmResult& arm) {
    double sum = 0;
    const LossBySeed losses = Losses(arm, EvalCodec::kOff);
    for (const auto& [seed, loss] : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }

  struct Rates {
    std::map<double, const ArmResult*> arms, references;  // by rate
  };

  void CollectRates() {
    std::map<std::tuple<int64_t, std::string, std::string>, Rates> by;
    for (const auto& [arm, spec] : arms_) {
      const ArmResult* reference = FindArm(a_, arm->reference);
      if (reference == nullptr || spec.lr <= 0) continue;
      if (!reference->changes.empty() && !OtherRate(*reference)) continue;
      Rates& rates = by[{arm->stages, arm->forward_codec, arm->backward_codec}];
      if (!rates.arms.emplace(spec.lr, arm).second) continue;  // cuts elsewhere
      rates.references.emplace(spec.lr, reference);
    }
    for (const auto& [key, rates] : by) {
      if (rates.arms.size() > 1) AddRates(std::get<0>(key), rates);
    }
  }

  void AddRates(int64_t stages, const Rates& rates) {
    double mean = 0, squares = 0;
    const double n = static_cast<double>(rates.arms.size());
    for (const auto& [lr, arm] : rates.arms) mean += std::log(lr) / n;
    for (const auto& [lr, arm] : rates.arms) squares += std::pow(std::log(lr) - mean, 2);
    std::vector<Weighted> slope;
    for (const auto& [lr, arm] : rates.arms)
      slope.emplace_back((std::log(lr) - mean) / squares, arm);
    const std::string what = fmt::format("{}, S = {}", Codecs(*rates.arms.begin()->second), stages);
    Add(fmt::format("slope of ln eta over ln lr, {}", what), slope);
    const auto better = [](const auto& x, const auto& y) {
      return MeanLoss(*x.second) < MeanLoss(*y.second);
    };
    const auto best = std::min_element(rates.arms.begin(), rates.arms.end(), better);
    const auto reference =
        std::min_element(rates.references.begin(), rates.references.end(), better);
    AddTerms(
        fmt::format("ln eta at the best rates ({:g} against {:g}), {}", best->first,
                    reference->first, what),
        {{1, Losses(*reference->second, EvalCodec::kOff), Losses(*best->second, EvalCodec::kOff)}},
        best->second->note);
  }

  CampaignAnalysis& a_;
  std::vector<std::pair<const ArmResult*, ArmPlace>> arms_;
};

}  // namespace

void CollectContrasts(CampaignAnalysis& a) { ContrastsOfArms(a).Collect(); }

}  // namespace longhaul
