// A pricing for programs: one JSON document, and a CSV with every row's figures.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/price/price_tables.h"
#include "experiments/report/html.h"
#include "experiments/train/model_of_spec.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

Json Of(const Measured& x) {
  const std::optional<Interval>& i = x.interval;
  return {{"value", x.value},
          {"low", i ? Json(i->low) : Json(nullptr)},
          {"high", i ? Json(i->high) : Json(nullptr)},
          {"level", i ? Json(i->level) : Json(nullptr)},
          {"method", i ? Json(i->method) : Json(nullptr)}};
}

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

// Of one pricing.
class Document {
 public:
  Document(const PriceInput& input, const PriceOutcome& outcome)
      : input_(input), request_(input.request), outcome_(outcome), findings_(outcome.findings) {}

  Json Conditions() const;
  Json Depths() const;
  Json Boundaries() const;
  Json Allowed() const;
  Json Choices() const;
  Json Gradients() const;

 private:
  Json Name(size_t codec) const { return request_.codecs[codec]; }
  Json Cut(size_t cuts) const {
    return {{"stages", request_.cuts[cuts].size() + 1}, {"cuts", request_.cuts[cuts]}};
  }

  const PriceInput& input_;
  const PriceRequest& request_;
  const PriceOutcome& outcome_;
  const PriceFindings& findings_;
};

Json Document::Conditions() const {
  const RunSpec::Model& m = input_.spec.model;
  return {{"weights", input_.weights_path},
          {"weights_sha256", input_.weights->hash()},
          {"model_file", input_.model_path},
          {"kind", m.kind},
          {"blocks", m.blocks},
          {"width", m.width},
          {"vocab", m.vocab},
          {"parameters", ParameterCount(ToModelSpec(input_.spec))},
          {"tokens", input_.tokens_source},
          {"tokens_sha256", input_.text->held_out_hash()},
          {"tokens_in_text", input_.text->held_out_tokens()},
          {"rows_in_text", input_.text->held_out_rows(request_.context)},
          {"rows", request_.rows},
          {"context_tokens", request_.context},
          {"gradient_rows", request_.gradient_rows},
          {"budget_nat", OrNull(request_.budget_nat)},
          {"move_blocks", request_.move},
          {"seed", request_.seed},
          {"engine", outcome_.engine},
          {"torch", outcome_.torch},
          {"cpu_path_torch", outcome_.torch_cpu_path},
          {"cpu_path_codecs", outcome_.codec_cpu_path},
          {"threads", outcome_.threads},
          {"interval_over", "rows"}};
}

Json Document::Depths() const {
  Json out = Json::array();
  for (const DepthPrice& d : findings_.depths) {
    Json row = Cut(d.cuts);
    row["codec"] = Name(d.codec);
    row["bits_per_element"] = d.bits;
    row["delta_nat_per_token"] = Of(d.delta);
    row["per_crossing_nat_per_token"] = Of(d.per_crossing);
    row["alone_added_nat_per_token"] = Of(d.sum_alone);
    row["together_less_added_nat_per_token"] = d.interaction ? Of(*d.interaction) : Json(nullptr);
    row["neighbour_correlation"] = d.neighbour_correlation;
    row["worst"] = nullptr;
    if (d.worst) {
      const std::vector<int64_t>& cuts = request_.cuts[d.cuts];
      row["worst"] = {{"before_block", cuts[d.worst->worst]},
                      {"median_before_block", cuts[d.worst->median]},
                      {"more_than_median_nat_per_token", Of(d.worst->more)},
                      {"pairs", d.worst->pairs}};
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json Document::Boundaries() const {
  Json out = Json::array();
  for (const BoundaryPrice& b : findings_.boundaries) {
    out.push_back({{"before_block", b.crossing.block},
                   {"codec", Name(b.crossing.codec)},
                   {"bits_per_element", b.count.bits_per_element()},
                   {"nmse", b.count.nmse()},
                   {"delta_nat_per_token", Of(b.delta)}});
  }
  return out;
}

Json Document::Allowed() const {
  Json out = Json::array();
  for (const AllowedFinding& a : findings_.allowed) {
    Json row = Cut(a.cuts);
    row["loss_nat_per_token"] = a.allowed;
    row["fewest_bits_that_keep_it"] = a.enough ? Name(*a.enough) : Json(nullptr);
    row["most_bits_that_miss_it"] = a.too_few ? Name(*a.too_few) : Json(nullptr);
    out.push_back(std::move(row));
  }
  return out;
}

Json Document::Choices() const {
  Json out = Json::array();
  for (const ChoiceFinding& c : findings_.choices) {
    Json row = Cut(c.cuts);
    row["none"] = c.none.empty() ? Json(nullptr) : Json(c.none);
    if (c.none.empty()) {
      row["choice"] = CrossingsOf(c.choice.arm, request_.codecs);
      row["bits_per_element"] = c.choice.bits / static_cast<double>(c.choice.arm.size());
      row["prices_added_nat_per_token"] = Of(c.predicted);
      row["on_other_rows_nat_per_token"] = c.together ? Of(*c.together) : Json(nullptr);
      row["verdict"] = c.verdict ? Json(ToString(*c.verdict)) : Json(nullptr);
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json Document::Gradients() const {
  Json out = Json::array();
  for (const GradientFinding& g : findings_.gradients) {
    Json row = Cut(g.of.cuts);
    row["codec"] = Name(g.of.codec);
    row["compressed"] = ToString(g.of.side);
    row["gradient_nmse"] = Of(g.nmse);
    row["gradient_cosine"] = Of(g.cosine);
    out.push_back(std::move(row));
  }
  return out;
}

// "0.1" of a double that reads back to the same bits.
std::string Number(double x) { return fmt::format("{}", x); }

}  // namespace

std::string PriceJson(const PriceInput& input, const PriceOutcome& outcome) {
  const Document document(input, outcome);
  const Json json = {{"schema", "longhaul.price/1"},
                     {"conditions", document.Conditions()},
                     {"notes", PriceWarnings(input, outcome)},
                     {"uncompressed_nat_per_token", Of(outcome.findings.exact)},
                     {"depths", document.Depths()},
                     {"boundaries", document.Boundaries()},
                     {"allowed", document.Allowed()},
                     {"choices", document.Choices()},
                     {"gradients", document.Gradients()},
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
