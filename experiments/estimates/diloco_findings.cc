#include "experiments/estimates/diloco_findings.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/diloco_cells.h"
#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

using Kind = DilocoFactor::Kind;
using Weighted = std::pair<double, const ArmResult*>;

// 2 bytes an element over those of one frame: in a round a group sends it to every other one.
absl::StatusOr<double> OuterRatio(const Record& record, const CampaignAnalysis& a,
                                  const ArmResult& arm) {
  const absl::StatusOr<std::vector<StepRow>> steps = record.Steps(arm.outcomes.front().run.id);
  if (!steps.ok()) return steps.status();
  double bytes = 0, rounds = 0;
  for (const StepRow& s : *steps) {
    if (s.group_index != 0 || !s.outer_synced) continue;
    bytes += static_cast<double>(s.outer_sent_bytes);
    rounds += s.stage == 0 ? 1 : 0;
  }
  const auto peers = static_cast<double>(arm.outcomes.front().run.groups - 1);
  return bytes > 0 ? 2 * static_cast<double>(a.parameters) * rounds * peers / bytes : 0;
}

// Of one convention of the batch. One group alone has both.
class Factors {
 public:
  Factors(CampaignAnalysis& a, bool local_batch) : a_(a), local_batch_(local_batch) {
    for (const DilocoCell& c : a.diloco.cells) {
      if (c.local_batch == local_batch || c.groups == 1) cells_.push_back(c);
    }
  }

  void Collect() {
    for (const DilocoCell& cell : cells_) {
      if (cell.local_batch != local_batch_) continue;
      if (!cell.boundary.empty()) {
        AddJoint(cell);
      } else if (cell.codec == "none") {
        AddGrid(cell);
      } else {
        AddCodec(cell);
      }
    }
    if (!local_batch_) AddSplit();
  }

 private:
  const ArmResult* At(int64_t groups, int64_t inner_steps, const std::string& codec,
                      const std::string& boundary = "") const {
    for (const DilocoCell& c : cells_) {
      if (c.groups == groups && c.inner_steps == inner_steps && c.codec == codec &&
          c.boundary == boundary) {
        return FindArm(a_, c.arm);
      }
    }
    return nullptr;
  }

  // The arm that compresses the same boundaries and has no outer step.
  const ArmResult* WithoutOuterStep(const ArmResult& joint) const {
    for (const ArmResult& arm : a_.arms) {
      if (arm.HasQ() && arm.reference == joint.reference && arm.stages == joint.stages &&
          arm.forward_codec == joint.forward_codec && arm.backward_codec == joint.backward_codec) {
        return &arm;
      }
    }
    return nullptr;
  }

  std::string WhyNot(const ArmResult& arm) const {
    if (!arm.note.empty()) return fmt::format("arm '{}': {}", arm.arm, arm.note);
    if (arm.lost > 0) return fmt::format("arm '{}' {}", arm.arm, arm.LostText());
    return "";
  }

  void Add(DilocoFactor factor, const std::vector<Weighted>& arms) {
    if (!a_.curve) factor.note = a_.curve_note;
    factor.local_batch = local_batch_;
    if (local_batch_) factor.name += ", local batch";
    std::vector<EtaTerm> terms;
    for (const auto& [weight, arm] : arms) {
      if (arm == nullptr) return;  // the campaign has no such cell
      if (factor.note.empty()) factor.note = WhyNot(*arm);
      const ArmResult* reference = FindArm(a_, arm->reference);
      terms.push_back({weight, Losses(*reference, EvalCodec::kOff), Losses(*arm, EvalCodec::kOff)});
    }
    if (factor.note.empty()) {
      const absl::StatusOr<EtaContrast> x = EstimateContrast(*a_.curve, terms);
      if (x.ok()) {
        factor.ln = x->ln;
        factor.seeds = x->seeds;
      } else {
        factor.note = std::string(x.status().message());
      }
    }
    const bool ratio = factor.kind != Kind::kInteraction && factor.kind != Kind::kExponent;
    if (factor.ln && ratio) factor.eta = Exponential(*factor.ln);
    a_.diloco.factors.push_back(std::move(factor));
  }

  static Measured Exponential(const Measured& ln) {
    Measured out{.value = std::exp(ln.value)};
    if (ln.interval) {
      out.interval = Interval{std::exp(ln.interval->low), std::exp(ln.interval->high),
                              ln.interval->level, ln.interval->method};
    }
    return out;
  }

  void AddGrid(const DilocoCell& cell) {
    const auto& [m, h] = std::pair(cell.groups, cell.inner_steps);
    const ArmResult* here = FindArm(a_, cell.arm);
    const ArmResult *every_step = At(m, 1, "none"), *alone = At(1, h, "none");
    if (h > 1) {
      Add({.kind = Kind::kInnerSteps,
           .name = fmt::format("eta_H({} | M = {})", h, m),
           .groups = m,
           .inner_steps = h},
          {{1, here}, {-1, every_step}});
    }
    if (m > 1) {
      Add({.kind = Kind::kReplicas,
           .name = fmt::format("eta_replicas({} | H = {})", m, h),
           .groups = m,
           .inner_steps = h},
          {{1, here}, {-1, alone}});
    }
    if (h > 1 && m > 1) {
      Add({.kind = Kind::kInteraction,
           .name = fmt::format("interaction of H = {} and M = {}", h, m),
           .groups = m,
           .inner_steps = h,
           .terms = {"H", "M"}},
          {{1, here}, {-1, every_step}, {-1, alone}, {1, At(1, 1, "none")}});
    }
  }

  void AddCodec(const DilocoCell& cell) {
    Add({.kind = Kind::kCodec,
         .name =
             fmt::format("eta_c({} | M = {}, H = {})", cell.codec, cell.groups, cell.inner_steps),
         .groups = cell.groups,
         .inner_steps = cell.inner_steps,
         .codec = cell.codec,
         .ratio = cell.ratio},
        {{1, FindArm(a_, cell.arm)}, {-1, At(cell.groups, cell.inner_steps, "none")}});
  }

  // A compressed pipeline inside of groups: does it lose what the two lose apart?
  void AddJoint(const DilocoCell& cell) {
    const ArmResult* joint = FindArm(a_, cell.arm);
    const auto& [m, h] = std::pair(cell.groups, cell.inner_steps);
    if (cell.codec == "none") {
      Add({.kind = Kind::kInteraction,
           .name = fmt::format("interaction of {} and M = {}, H = {}", cell.boundary, m, h),
           .groups = m,
           .inner_steps = h,
           .terms = {"act", "H"}},
          {{1, joint}, {-1, WithoutOuterStep(*joint)}, {-1, At(m, h, "none")}});
      return;
    }
    Add({.kind = Kind::kInteraction,
         .name = fmt::format("interaction of {} and {} at M = {}, H = {}", cell.boundary,
                             cell.codec, m, h),
         .groups = m,
         .inner_steps = h,
         .codec = cell.codec,
         .terms = {"act", "c"}},
        {{1, joint},
         {-1, At(m, h, "none", cell.boundary)},
         {-1, At(m, h, cell.codec)},
         {1, At(m, h, "none")}});
  }

  void AddSplit() {
    std::set<int64_t> replicas, inner_steps;
    for (const DilocoCell& c : cells_) {
      if (!c.boundary.empty() || c.codec != "none") continue;
      if (c.groups > 1) replicas.insert(c.groups);
      inner_steps.insert(c.inner_steps);
    }
    if (replicas.empty()) return;
    const int64_t m0 = *replicas.begin();
    for (const int64_t m : replicas) {
      if (m == m0) continue;
      for (const int64_t h : inner_steps) {
        Add({.kind = Kind::kSplitReplicas,
             .name = fmt::format("eta_replicas({} over {} | H = {})", m, m0, h),
             .groups = m,
             .inner_steps = h},
            {{1, At(m, h, "none")}, {-1, At(m0, h, "none")}});
      }
    }
    for (const int64_t m : replicas) AddExponent(m, inner_steps);
  }

  // ln eta(M, H) - ln eta(M, 1) = -alpha ln H by least squares through H = 1. Linear in ln eta, so
  // it has a contrast's interval; 0 inside of it is "no trend".
  void AddExponent(int64_t m, const std::set<int64_t>& inner_steps) {
    const ArmResult* every_step = At(m, 1, "none");
    double squares = 0, at_one = 0;
    std::vector<Weighted> arms;
    for (const int64_t h : inner_steps) {
      const ArmResult* arm = At(m, h, "none");
      if (h == 1 || arm == nullptr) continue;
      squares += std::pow(std::log(static_cast<double>(h)), 2);
      arms.emplace_back(std::log(static_cast<double>(h)), arm);
    }
    if (arms.size() < 2) return;
    for (auto& [weight, arm] : arms) {
      weight = -weight / squares;
      at_one -= weight;
    }
    arms.emplace_back(at_one, every_step);
    Add({.kind = Kind::kExponent,
         .name = fmt::format("alpha of eta_H = H^-alpha at M = {}", m),
         .groups = m},
        arms);
  }

  CampaignAnalysis& a_;
  const bool local_batch_;
  std::vector<DilocoCell> cells_;
};

}  // namespace

absl::Status CollectDiloco(const Record& record, CampaignAnalysis& a) {
  a.diloco.cells = FindDilocoCells(a);
  a.diloco.outer = FindOuterArms(a);
  for (DilocoCell& cell : a.diloco.cells) {
    if (cell.codec == "none") continue;
    const absl::StatusOr<double> ratio = OuterRatio(record, a, *FindArm(a, cell.arm));
    if (!ratio.ok()) return ratio.status();
    cell.ratio = *ratio;
  }
  for (const bool local_batch : {false, true}) Factors(a, local_batch).Collect();
  a.diloco.forms = FitOuterForms(a);
  return absl::OkStatus();
}

}  // namespace longhaul
