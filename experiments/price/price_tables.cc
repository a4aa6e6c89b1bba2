#include "experiments/price/price_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/train/model_of_spec.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

constexpr int kNatDigits = 5, kGradientDigits = 4;

std::string Nat(const Measured& x) { return WithInterval(x, kNatDigits); }

// A request with its findings.
class Tables {
 public:
  Tables(const PriceRequest& request, const PriceFindings& findings)
      : request_(request), findings_(findings) {}

  ReportTable Depths() const;
  ReportTable Boundaries() const;
  ReportTable Worst() const;
  ReportTable Allowed() const;
  ReportTable Choices() const;
  ReportTable Gradients() const;

 private:
  std::string Stages(size_t cuts) const {
    return fmt::format("{}", request_.cuts[cuts].size() + 1);
  }
  const std::string& Codec(size_t codec) const { return request_.codecs[codec]; }
  std::string CodecWithBits(size_t cuts, std::optional<size_t> codec) const;

  const PriceRequest& request_;
  const PriceFindings& findings_;
};

ReportTable Tables::Depths() const {
  ReportTable table{
      .title = "All boundaries of S stages compressed, forward",
      .header = {"S", "codec", "bits/el", "Delta (nat/token)", "a crossing", "each alone, added",
                 "together less added"},
      .rows = {},
      .notes = {"Delta: loss less that of the same rows uncompressed. Bits are of the "
                "frames' bytes, headers included."}};
  for (const DepthPrice& depth : findings_.depths) {
    table.rows.push_back({Stages(depth.cuts), Codec(depth.codec), fmt::format("{:.3f}", depth.bits),
                          Nat(depth.delta), Nat(depth.per_crossing), Nat(depth.sum_alone),
                          depth.interaction ? Nat(*depth.interaction) : "-"});
  }
  for (size_t c = 0; c < request_.cuts.size(); ++c) {
    table.notes.push_back(fmt::format("S = {}: stages begin with blocks 0, {}.", Stages(c),
                                      fmt::join(request_.cuts[c], ", ")));
  }
  return table;
}

ReportTable Tables::Boundaries() const {
  ReportTable table{
      .title = "Each boundary alone",
      .header = {"before block", "codec", "bits/el", "NMSE", "Delta (nat/token)"},
      .rows = {},
      .notes = {"NMSE: squared error of the tensor that crosses, over its square sum."}};
  for (const BoundaryPrice& b : findings_.boundaries) {
    table.rows.push_back({fmt::format("{}", b.crossing.block), Codec(b.crossing.codec),
                          fmt::format("{:.3f}", b.count.bits_per_element()),
                          fmt::format("{:.3g}", b.count.nmse()), Nat(b.delta)});
  }
  return table;
}

ReportTable Tables::Worst() const {
  ReportTable table{
      .title = "The boundary that costs most",
      .header = {"S", "codec", "worst", "median", "more by (nat/token)", "pairs"},
      .rows = {},
      .notes = {"Blocks before which the boundary lies. Worst and median are picked by "
                "the same rows: each interval is wide enough that 95 % holds for all "
                "pairs of boundaries together (Bonferroni)."}};
  for (const DepthPrice& depth : findings_.depths) {
    if (!depth.worst) continue;
    const std::vector<int64_t>& cuts = request_.cuts[depth.cuts];
    table.rows.push_back({Stages(depth.cuts), Codec(depth.codec),
                          fmt::format("{}", cuts[depth.worst->worst]),
                          fmt::format("{}", cuts[depth.worst->median]), Nat(depth.worst->more),
                          fmt::format("{}", depth.worst->pairs)});
  }
  return table;
}

std::string Tables::CodecWithBits(size_t cuts, std::optional<size_t> codec) const {
  if (!codec) return "none of these";
  for (const DepthPrice& depth : findings_.depths) {
    if (depth.cuts == cuts && depth.codec == *codec) {
      return fmt::format("{} ({:.3f})", Codec(*codec), depth.bits);
    }
  }
  return "";
}

ReportTable Tables::Allowed() const {
  ReportTable table{
      .title = "Bits that a loss allows",
      .header = {"S", "loss (nat/token)", "fewest bits shown to keep it",
                 "most bits shown to miss it"},
      .rows = {},
      .notes = {
          "Shown: the whole 95 % interval of Delta is on that side. Between the two nothing is "
          "shown."}};
  for (const AllowedFinding& a : findings_.allowed) {
    table.rows.push_back({Stages(a.cuts), fmt::format("{}", a.allowed),
                          CodecWithBits(a.cuts, a.enough), CodecWithBits(a.cuts, a.too_few)});
  }
  return table;
}

ReportTable Tables::Choices() const {
  ReportTable table{
      .title = fmt::format("Fewest bits within {} nat", request_.budget_nat.value_or(0)),
      .header = {"S", "codec before each block", "bits/el", "prices added (nat/token)",
                 "seen on other rows", ""},
      .rows = {},
      .notes = {
          fmt::format("Cuts move by at most {} block{}. Chosen by adding the prices of single "
                      "boundaries, which favours those that came out low by chance; then all "
                      "together on {} rows that had no part in it.",
                      request_.move, request_.move == 1 ? "" : "s", request_.rows)}};
  for (const ChoiceFinding& c : findings_.choices) {
    if (!c.none.empty()) {
      table.rows.push_back({Stages(c.cuts), c.none, "-", "-", "-", "none"});
      continue;
    }
    table.rows.push_back(
        {Stages(c.cuts), ArmText(c.choice.arm, request_.codecs),
         fmt::format("{:.3f}", c.choice.bits / static_cast<double>(c.choice.arm.size())),
         Nat(c.predicted), c.together ? Nat(*c.together) : "-",
         c.verdict ? ToString(*c.verdict) : "-"});
  }
  return table;
}

ReportTable Tables::Gradients() const {
  ReportTable table{
      .title = "The gradient of all parameters against the exact one",
      .header = {"S", "codec", "compressed", "NMSE", "cosine"},
      .rows = {},
      .notes = {fmt::format(
          "Of one row's mean loss; t over {} rows, cut at 0 and 1. Backward: the gradient that "
          "crosses each boundary is compressed; forward: the activation, and the "
          "gradient is taken behind it.",
          request_.gradient_rows)}};
  for (const GradientFinding& g : findings_.gradients) {
    table.rows.push_back({Stages(g.of.cuts), Codec(g.of.codec), ToString(g.of.side),
                          WithInterval(g.nmse, kGradientDigits),
                          WithInterval(g.cosine, kGradientDigits)});
  }
  return table;
}

}  // namespace

std::string ArmText(const PriceArm& arm, const std::vector<std::string>& codecs) {
  std::vector<std::string> parts;
  for (const PricedCrossing& c : arm)
    parts.push_back(fmt::format("{} {}", c.block, codecs[c.codec]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> PriceConditions(const PriceInput& input, const PriceOutcome& outcome) {
  const RunSpec::Model& m = input.spec.model;
  const PriceRequest& r = input.request;
  return {fmt::format("model: {}, {} of {} blocks, width {}, {:.4g} M parameters; SHA-256 {}",
                      input.weights_path, m.kind, m.blocks, m.width,
                      static_cast<double>(ParameterCount(ToModelSpec(input.spec))) / 1e6,
                      input.weights->hash()),
          fmt::format("text: {}, {} tokens; SHA-256 {}", input.tokens_source,
                      input.text->held_out_tokens(), input.text->held_out_hash()),
          fmt::format("rows: {} of {} tokens each, drawn from all {} of the text; intervals are 95 "
                      "%, t over rows",
                      r.rows, r.context, input.text->held_out_rows(r.context)),
          fmt::format("computed by: engine {}, torch {} ({}), codecs {}, {} thread{}",
                      outcome.engine, outcome.torch, outcome.torch_cpu_path, outcome.codec_cpu_path,
                      outcome.threads, outcome.threads == 1 ? "" : "s"),
          fmt::format("uncompressed: {} nat/token", Nat(outcome.findings.exact))};
}

std::vector<ReportTable> PriceTables(const PriceInput& input, const PriceOutcome& outcome) {
  const Tables tables(input.request, outcome.findings);
  std::vector<ReportTable> out = {tables.Depths(),  tables.Boundaries(), tables.Worst(),
                                  tables.Allowed(), tables.Choices(),    tables.Gradients()};
  std::erase_if(out, [](const ReportTable& table) { return table.rows.empty(); });
  return out;
}

std::vector<std::string> PriceWarnings(const PriceInput& input, const PriceOutcome& outcome) {
  const double most = MostAlike(outcome.findings);
  const double bound =
      NeighbourBound(static_cast<size_t>(input.request.rows), outcome.findings.depths.size());
  std::vector<std::string> notes;
  if (input.rows_trained_on > 0) {
    notes.push_back(fmt::format(
        "note: {} of the {} rows stand in {}, from which {} says that this model trains: what is "
        "priced there is text that it has seen",
        input.rows_trained_on, input.request.rows * (input.request.budget_nat ? 2 : 1),
        input.trained_source, input.model_path));
  }
  if (most <= bound) return notes;
  notes.push_back(fmt::format(
      "note: rows that follow each other in the text differ alike (correlation up to {:.2f}, by "
      "chance below {:.2f}): intervals are for the whole of this text and may be too narrow for "
      "others; a longer --context or text helps",
      most, bound));
  return notes;
}

std::string PriceText(const PriceInput& input, const PriceOutcome& outcome) {
  std::string text;
  for (const std::string& line : PriceConditions(input, outcome)) text += line + "\n";
  for (const std::string& line : PriceWarnings(input, outcome)) text += line + "\n";
  for (const ReportTable& table : PriceTables(input, outcome)) text += "\n" + TextOf(table);
  return text;
}

}  // namespace longhaul
