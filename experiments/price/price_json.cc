// A pricing for programs: one JSON document, and a CSV with every row's figures.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/estimates/table_json.h"
#include "experiments/price/price_tables.h"
#include "experiments/report/html.h"
#include "experiments/train/model_of_spec.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& x) {
  return x ? Json(*x) : Json(nullptr);
}

Json CrossingsOf(const PriceArm& arm, const std::vector<std::string>& codecs) {
  Json out = Json::array();
  for (const PricedCrossing& c : arm) {
    out.push_back({{"before_block", c.block}, {"codec", codecs[c.codec]}});
  }
  return out;
}

Json Conditions(const PriceInput& input, const PriceOutcome& outcome) {
  const PriceRequest& request = input.request;
  const RunSpec::Model& m = input.spec.model;
  return {{"weights", input.weights_path},
          {"weights_sha256", input.weights->hash()},
          {"model_file", input.model_path},
          {"kind", m.kind},
          {"blocks", m.blocks},
          {"width", m.width},
          {"vocab", m.vocab},
          {"parameters", ParameterCount(ToModelSpec(input.spec))},
          {"tokens", input.tokens_source},
          {"tokens_sha256", input.text->held_out_hash()},
          {"tokens_in_text", input.text->held_out_tokens()},
          {"rows_in_text", input.text->held_out_rows(request.context)},
          {"rows", request.rows},
          {"context_tokens", request.context},
          {"gradient_rows", request.gradient_rows},
          {"budget_nat", OrNull(request.budget_nat)},
          {"move_blocks", request.move},
          {"seed", request.seed},
          {"engine", outcome.engine},
          {"torch", outcome.torch},
          {"cpu_path_torch", outcome.torch_cpu_path},
          {"cpu_path_codecs", outcome.codec_cpu_path},
          {"threads", outcome.threads},
          {"interval_over", "rows"}};
}

Json Depths(const Table& table, const PriceRequest& request, const PriceFindings& findings) {
  Json out = JsonRows(table);
  for (size_t i = 0; i < out.size(); ++i) {
    const DepthPrice& d = findings.depths[i];
    if (!d.worst) continue;
    const std::vector<int64_t>& cuts = request.cuts[d.cuts];
    out[i]["worst"] = {{"before_block", cuts[d.worst->worst]},
                       {"median_before_block", cuts[d.worst->median]},
                       {"more_than_median_nat_per_token", ToJson(d.worst->more)},
                       {"pairs", d.worst->pairs}};
  }
  return out;
}

Json Choices(const Table& table, const PriceRequest& request, const PriceFindings& findings) {
  Json out = JsonRows(table);
  for (size_t i = 0; i < out.size(); ++i) {
    const ChoiceFinding& c = findings.choices[i];
    if (c.none.empty()) {
      out[i]["choice"] = CrossingsOf(c.choice.arm, request.codecs);
    } else {
      out[i] = {{"stages", out[i]["stages"]}, {"cuts", out[i]["cuts"]}, {"none", c.none}};
    }
  }
  return out;
}

// "0.1" of a double that reads back to the same bits.
std::string Number(double x) { return fmt::format("{}", x); }

}  // namespace

std::string PriceJson(const PriceInput& input, const PriceOutcome& outcome) {
  const PriceTables tables(input, outcome);
  const Json json = {{"schema", "longhaul.price/1"},
                     {"conditions", Conditions(input, outcome)},
                     {"notes", PriceWarnings(input, outcome)},
                     {"uncompressed_nat_per_token", ToJson(outcome.findings.exact)},
                     {"depths", Depths(tables.depths, input.request, outcome.findings)},
                     {"boundaries", JsonRows(tables.boundaries)},
                     {"allowed", JsonRows(tables.allowed)},
                     {"choices", Choices(tables.choices, input.request, outcome.findings)},
                     {"gradients", JsonRows(tables.gradients)},
                     {"error", nullptr}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string PriceRowsCsv(const PriceInput& input, const PriceOutcome& outcome) {
  const PriceRequest& request = input.request;
  std::vector<std::vector<std::string>> rows = {{"part", "row", "window", "compressed", "crossings",
                                                 "loss_nat_per_token", "uncompressed_nat_per_token",
                                                 "gradient_nmse", "gradient_cosine"}};
  const auto add = [&](const char* part, size_t row, int64_t window, const char* side,
                       const PriceArm& arm, double loss, double exact) {
    rows.push_back({part, fmt::format("{}", row), fmt::format("{}", window), side,
                    ArmText(arm, request.codecs), Number(loss), Number(exact), "", ""});
  };
  const PriceSeen& seen = outcome.seen;
  const RowValues& exact = seen.losses[*seen.arms.Find({})];
  for (size_t a = 0; a < seen.arms.all().size(); ++a) {
    const PriceArm& arm = seen.arms.all()[a];
    for (size_t r = 0; r < exact.size(); ++r) {
      add("priced", r, seen.windows[r], arm.empty() ? "" : "forward", arm, seen.losses[a][r],
          exact[r]);
    }
  }
  if (const auto& verified = outcome.verification) {
    for (size_t c = 0; c < verified->chosen.size(); ++c) {
      for (size_t r = 0; r < verified->chosen[c].size(); ++r) {
        add("verified", exact.size() + r, verified->windows[r], "forward",
            outcome.findings.choices[c].choice.arm, verified->chosen[c][r], verified->exact[r]);
      }
    }
  }
  const std::vector<GradientPlan> plans = GradientsOf(request);
  for (size_t g = 0; g < seen.gradient_nmse.size(); ++g) {
    for (size_t r = 0; r < seen.gradient_nmse[g].size(); ++r) {
      rows.push_back({"gradient", fmt::format("{}", r), fmt::format("{}", seen.windows[r]),
                      ToString(plans[g].side),
                      ArmText(ArmOf(request.cuts[plans[g].cuts], plans[g].codec), request.codecs),
                      "", "", Number(seen.gradient_nmse[g][r]),
                      Number(seen.gradient_cosine[g][r])});
    }
  }
  return Csv(rows);
}

}  // namespace longhaul
