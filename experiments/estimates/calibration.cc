// What a campaign changes for the planner: eta_act by depth, and the calibration file.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {
namespace {

using nlohmann::json;

constexpr double kEightStageFloor = 0.90;

json Ends(const Interval& interval) { return json::array({interval.low, interval.high}); }

std::string DirectionOf(const ArmResult& arm) {
  if (arm.forward_codec == "none") return "backward";
  return arm.backward_codec == "none" ? "forward" : "both";
}

json Entry(const Family& family, const char* evaluation, const JointEstimate& joint) {
  json entry = {{"codec", family.codecs},
                {"direction", DirectionOf(*family.arms.front())},
                {"eval", evaluation},
                {"q", joint.q.value},
                {"q_ci", Ends(*joint.q.interval)},
                {"level", joint.q.interval->level},
                {"method", joint.q.interval->method},
                {"seeds", joint.seeds},
                {"by_S", json::array()},
                {"delta_nat", json::array()}};
  if (family.bits_per_element > 0) {
    entry["bits_per_element"] = family.bits_per_element;
    entry["ratio"] = 16 / family.bits_per_element;
  }
  for (const ArmResult* arm : family.arms) {
    const std::optional<Efficiency>& e = evaluation == std::string("off") ? arm->off : arm->on;
    if (!e || e->value_is_bound) continue;
    if (e->ln_eta.interval) {
      entry["by_S"].push_back(
          {{"S", arm->stages}, {"ln_eta", e->ln_eta.value}, {"ci", Ends(*e->ln_eta.interval)}});
    }
    if (e->delta_nat.interval) {
      entry["delta_nat"].push_back({{"S", arm->stages},
                                    {"value", e->delta_nat.value},
                                    {"ci", Ends(*e->delta_nat.interval)}});
    }
  }
  return entry;
}

Measured ToThePower(const Measured& q, double k) {
  Measured out{std::pow(q.value, k), q.interval};
  if (out.interval) {
    out.interval->low = std::pow(q.interval->low, k);
    out.interval->high = std::pow(q.interval->high, k);
  }
  return out;
}

}  // namespace

std::vector<PlannedDepth> PlannedDepths(const Family& family) {
  std::vector<PlannedDepth> out;
  for (const int64_t stages : {2, 4, 8}) {
    const double k = 2.0 * static_cast<double>(stages - 1);
    PlannedDepth depth{stages, std::pow(kAssumedQ, k), {}, false};
    const auto arm = std::find_if(family.arms.begin(), family.arms.end(), [&](const ArmResult* a) {
      return a->stages == stages && a->off && DirectionOf(*a) == "both";
    });
    if (arm != family.arms.end()) {
      depth.measured = (*arm)->off->eta;
      depth.direct = true;
    } else if (family.off) {
      depth.measured = ToThePower(family.off->q, k);
    } else {
      continue;
    }
    out.push_back(std::move(depth));
  }
  return out;
}

std::string EightStageVerdict(const Family& family) {
  for (const PlannedDepth& depth : PlannedDepths(family)) {
    if (depth.stages != 8) continue;
    if (!depth.measured.interval) return "undetermined";
    if (depth.measured.interval->low >= kEightStageFloor) return "unchanged";
    if (depth.measured.interval->high < kEightStageFloor) return "flips";
  }
  return "undetermined";
}

std::string CalibrationJson(const CampaignAnalysis& a) {
  json out = {{"schema", "calibration/1"},
              {"plan_sha256", a.experiment.plan_sha256},
              {"commit", a.git_revision},
              {"params", a.parameters},
              {"activation", json::array()}};
  if (a.experiment.d0_tokens) out["tokens"] = *a.experiment.d0_tokens;
  for (const Family& family : a.families) {
    if (family.off && family.off->q.interval) {
      out["activation"].push_back(Entry(family, "off", *family.off));
    }
    if (family.on && family.on->q.interval) {
      out["activation"].push_back(Entry(family, "on", *family.on));
    }
  }
  return out.dump(2) + "\n";
}

}  // namespace longhaul
