#include "experiments/price/price_told.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/run/reader.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& x) {
  return x ? Json(*x) : Json(nullptr);
}

Json CrossingsOf(const PriceArm& arm) {
  Json out = Json::array();
  for (const PricedCrossing& c : arm) out.push_back({c.block, c.codec});
  return out;
}

// Of the JSON document that a user gets.
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
          {"parameters", ParameterCount(input.spec.model)},
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

Json GradientRows(const PriceRequest& request, const PriceSeen& seen) {
  Json out = Json::array();
  const std::vector<GradientPlan> plans = GradientsOf(request);
  for (size_t g = 0; g < seen.gradient_nmse.size(); ++g) {
    out.push_back({{"cuts", plans[g].cuts},
                   {"codec", plans[g].codec},
                   {"side", ToString(plans[g].side)},
                   {"nmse", seen.gradient_nmse[g]},
                   {"cosine", seen.gradient_cosine[g]}});
  }
  return out;
}

std::string Told(const PriceInput& input, const PriceOutcome& outcome) {
  const PriceRequest& request = input.request;
  const PriceSeen& seen = outcome.seen;
  Json arms = Json::array(), forward = Json::array(), verified = nullptr;
  for (const PriceArm& arm : seen.arms.all()) arms.push_back(CrossingsOf(arm));
  for (const auto& [crossing, count] : seen.forward) {
    forward.push_back({crossing.block, crossing.codec, count.bits, count.elements,
                       count.squared_error, count.squared_norm, count.token_error, count.tokens});
  }
  if (const auto& v = outcome.verification) {
    verified = {{"windows", v->windows}, {"exact", v->exact}, {"chosen", v->chosen}};
  }
  const Json json = {
      {"conditions", Conditions(input, outcome)},
      {"request",
       {{"codecs", request.codecs}, {"cuts", request.cuts}, {"allowed_nat", request.allowed_nat}}},
      {"windows", seen.windows},
      {"arms", std::move(arms)},
      {"losses", seen.losses},
      {"forward", std::move(forward)},
      {"gradients", GradientRows(request, seen)},
      {"verified", std::move(verified)},
      {"trained_on", {{"rows", input.rows_trained_on}, {"source", input.trained_source}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What the verb answers; it has told on stderr why there is no answer.
absl::StatusOr<Json> Ask(std::vector<std::string> words, const std::string& told) {
  words.insert(words.begin(), "_price");
  ASSIGN_OR_RETURN(const ReaderAnswer answer, AskReader(std::move(words), told));
  Json json = Json::parse(answer.output, nullptr, /*allow_exceptions=*/false);
  if (answer.status == 0 && !json.is_discarded()) return json;
  return absl::InternalError(fmt::format(
      "the rows are priced, and {} ended with status {} before it had estimated from them",
      ReaderPython(), answer.status));
}

}  // namespace

bool CanReadPrices() {
  const absl::StatusOr<ReaderAnswer> answer = AskReader({"_price", "--check"}, "");
  return answer.ok() && answer->status == 0;
}

absl::StatusOr<std::vector<PriceArm>> ChosenArms(const PriceInput& input,
                                                 const PriceOutcome& outcome) {
  ASSIGN_OR_RETURN(const Json chosen, Ask({"--choose"}, Told(input, outcome)));
  std::vector<PriceArm> arms;
  for (const Json& arm : chosen) {
    PriceArm& crossings = arms.emplace_back();
    for (const Json& c : arm) crossings.push_back({c[0].get<int64_t>(), c[1].get<size_t>()});
  }
  return arms;
}

absl::StatusOr<PriceShown> ShowPrices(const PriceInput& input, const PriceOutcome& outcome,
                                      bool csv, bool page) {
  std::vector<std::string> words;
  if (csv) words.emplace_back("--csv");
  if (page) words.emplace_back("--page");
  ASSIGN_OR_RETURN(const Json shown, Ask(std::move(words), Told(input, outcome)));
  const auto of = [&](const char* key) { return shown.value(key, ""); };
  return PriceShown{.text = of("text"),
                    .json = of("json"),
                    .csv = of("csv"),
                    .page = of("page"),
                    .unmet = of("unmet")};
}

}  // namespace longhaul
