// The answer of a calibration as CSV and JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/conclusions.h"

namespace longhaul::simulator {
namespace {

using nlohmann::json;

std::string Line(const Attribution& a, std::string_view part, const Judgement& j) {
  return fmt::format("{},\"{}\",{},{},{},{},{},{},{}\n", TransferName(a.transfer), j.name, part,
                     j.assumed, j.point, j.low, j.high, ChangeName(j.change), j.touched ? 1 : 0);
}

json Object(const Judgement& j) {
  return {{"assumed", j.assumed}, {"point", j.point},     {"low", j.low},
          {"high", j.high},       {"touched", j.touched}, {"verdict", ChangeName(j.change)}};
}

}  // namespace

std::string ConclusionsCsv(const std::vector<Attribution>& answer) {
  std::string out = "transfer,conclusion,measured,assumed,point,low,high,verdict,touched\n";
  for (const Attribution& a : answer) {
    out += Line(a, "all", a.whole);
    for (const Attribution::OfPart& of : a.parts) out += Line(a, PartName(of.part), of.judgement);
  }
  return out;
}

std::string CalibrationJson(const CalibrationPlan& plan, const std::vector<Attribution>& answer,
                            const std::vector<MeasuredNumber>& numbers) {
  const Calibration& c = plan.calibration();
  json out = {{"plan_sha256", c.plan_sha256}, {"commit", c.commit},
              {"parameters", c.parameters},   {"bounds", c.bounds},
              {"sources", plan.names()},      {"conclusions", json::array()},
              {"scenarios", json::array()}};
  if (const ActivationEntry* a = plan.activation()) {
    out["codec"] = a->codec;
    if (a->forward_ratio) out["ratio_forward"] = *a->forward_ratio;
    if (a->backward_ratio) out["ratio_backward"] = *a->backward_ratio;
  }
  for (const Attribution& a : answer) {
    json object = Object(a.whole);
    object["conclusion"] = a.whole.name;
    object["transfer"] = TransferName(a.transfer);
    for (const Attribution::OfPart& of : a.parts) {
      object["alone"][PartName(of.part)] = Object(of.judgement);
    }
    out["conclusions"].push_back(std::move(object));
  }
  for (const MeasuredNumber& n : numbers) {
    out["scenarios"].push_back({{"scenario", n.scenario},
                                {"number", n.number},
                                {"transfer", TransferName(n.transfer)},
                                {"assumed", n.assumed},
                                {"point", n.point},
                                {"low", n.low},
                                {"high", n.high}});
  }
  return out.dump();
}

}  // namespace longhaul::simulator
