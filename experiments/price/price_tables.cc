#include "experiments/price/price_tables.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/record/whole_file.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "experiments/report/report_sections.h"
#include "experiments/train/model_of_spec.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

constexpr int kNatDigits = 5, kGradientDigits = 4;

// A request with its findings.
class Pricing {
 public:
  Pricing(const PriceRequest& request, const PriceFindings& findings)
      : request_(request), findings_(findings) {}

  Table Depths() const;
  Table Boundaries() const;
  Table Worst() const;
  Table Allowed() const;
  Table Choices() const;
  Table Gradients() const;

 private:
  size_t Stages(size_t cuts) const { return request_.cuts[cuts].size() + 1; }
  Cell Cuts(size_t cuts) const { return Cell::Shown("", request_.cuts[cuts]); }
  const std::string& Codec(size_t codec) const { return request_.codecs[codec]; }
  Cell CodecWithBits(size_t cuts, std::optional<size_t> codec) const;

  const PriceRequest& request_;
  const PriceFindings& findings_;
};

Table Pricing::Depths() const {
  Table table{.title = "All boundaries of S stages compressed, forward",
              .columns = ColumnsOf("S:stages | -:cuts | codec:codec | bits/el:bits_per_element | "
                                   "Delta (nat/token):delta_nat_per_token[] | "
                                   "a crossing:per_crossing_nat_per_token[] | "
                                   "each alone, added:alone_added_nat_per_token[] | "
                                   "together less added:together_less_added_nat_per_token[] | "
                                   "-:neighbour_correlation | -:worst"),
              .notes = {"Delta: loss less that of the same rows uncompressed. Bits are of the "
                        "frames' bytes, headers included."}};
  for (const DepthPrice& depth : findings_.depths) {
    table.Add({Stages(depth.cuts), Cuts(depth.cuts), Codec(depth.codec), Cell(depth.bits, "{:.3f}"),
               Cell(depth.delta, kNatDigits), Cell(depth.per_crossing, kNatDigits),
               Cell(depth.sum_alone, kNatDigits), Cell(depth.interaction, kNatDigits),
               depth.neighbour_correlation});
  }
  for (size_t c = 0; c < request_.cuts.size(); ++c) {
    table.notes.push_back(fmt::format("S = {}: stages begin with blocks 0, {}.", Stages(c),
                                      fmt::join(request_.cuts[c], ", ")));
  }
  return table;
}

Table Pricing::Boundaries() const {
  Table table{.title = "Each boundary alone",
              .columns = ColumnsOf("before block:before_block | codec:codec | "
                                   "bits/el:bits_per_element | NMSE:nmse | "
                                   "Delta (nat/token):delta_nat_per_token[]"),
              .notes = {"NMSE: squared error of the tensor that crosses, over its square sum."}};
  for (const BoundaryPrice& b : findings_.boundaries) {
    table.Add({b.crossing.block, Codec(b.crossing.codec),
               Cell(b.count.bits_per_element(), "{:.3f}"), Cell(b.count.nmse(), "{:.3g}"),
               Cell(b.delta, kNatDigits)});
  }
  return table;
}

Table Pricing::Worst() const {
  Table table{.title = "The boundary that costs most",
              .columns = ColumnsOf("S | codec | worst | median | more by (nat/token) | pairs"),
              .notes = {"Blocks before which the boundary lies. Worst and median are picked by "
                        "the same rows: each interval is wide enough that 95 % holds for all "
                        "pairs of boundaries together (Bonferroni)."}};
  for (const DepthPrice& depth : findings_.depths) {
    if (!depth.worst) continue;
    const std::vector<int64_t>& cuts = request_.cuts[depth.cuts];
    table.Add({Stages(depth.cuts), Codec(depth.codec), cuts[depth.worst->worst],
               cuts[depth.worst->median], Cell(depth.worst->more, kNatDigits), depth.worst->pairs});
  }
  return table;
}

Cell Pricing::CodecWithBits(size_t cuts, std::optional<size_t> codec) const {
  if (!codec) return Cell::None("none of these");
  for (const DepthPrice& depth : findings_.depths) {
    if (depth.cuts == cuts && depth.codec == *codec) {
      return Cell::Shown(fmt::format("{} ({:.3f})", Codec(*codec), depth.bits), Codec(*codec));
    }
  }
  return Cell::Shown("", Codec(*codec));
}

Table Pricing::Allowed() const {
  Table table{
      .title = "Bits that a loss allows",
      .columns = ColumnsOf("S:stages | -:cuts | loss (nat/token):loss_nat_per_token | "
                           "fewest bits shown to keep it:fewest_bits_that_keep_it | "
                           "most bits shown to miss it:most_bits_that_miss_it"),
      .notes = {
          "Shown: the whole 95 % interval of Delta is on that side. Between the two nothing is "
          "shown."}};
  for (const AllowedFinding& a : findings_.allowed) {
    table.Add({Stages(a.cuts), Cuts(a.cuts), a.allowed, CodecWithBits(a.cuts, a.enough),
               CodecWithBits(a.cuts, a.too_few)});
  }
  return table;
}

Table Pricing::Choices() const {
  Table table{.title = fmt::format("Fewest bits within {} nat", request_.budget_nat.value_or(0)),
              .columns = ColumnsOf("S:stages | -:cuts | -:none | codec before each block:choice | "
                                   "bits/el:bits_per_element | "
                                   "prices added (nat/token):prices_added_nat_per_token[] | "
                                   "seen on other rows:on_other_rows_nat_per_token[] | :verdict"),
              .notes = {fmt::format(
                  "Cuts move by at most {} block{}. Chosen by adding the prices of single "
                  "boundaries, which favours those that came out low by chance; then all "
                  "together on {} rows that had no part in it.",
                  request_.move, request_.move == 1 ? "" : "s", request_.rows)}};
  for (const ChoiceFinding& c : findings_.choices) {
    std::vector<Cell> row = {Stages(c.cuts), Cuts(c.cuts)};
    if (!c.none.empty()) {
      row.insert(row.end(), {c.none, Cell::None(c.none), Cell::None(), Cell::None(), Cell::None(),
                             Cell::None("none")});
    } else {
      row.insert(row.end(),
                 {Cell::None(), ArmText(c.choice.arm, request_.codecs),
                  Cell(c.choice.bits / static_cast<double>(c.choice.arm.size()), "{:.3f}"),
                  Cell(c.predicted, kNatDigits), Cell(c.together, kNatDigits),
                  c.verdict ? Cell(ToString(*c.verdict)) : Cell::None()});
    }
    table.Add(std::move(row));
  }
  return table;
}

Table Pricing::Gradients() const {
  Table table{
      .title = "The gradient of all parameters against the exact one",
      .columns = ColumnsOf("S:stages | -:cuts | codec:codec | compressed:compressed | "
                           "NMSE:gradient_nmse[] | cosine:gradient_cosine[]"),
      .notes = {fmt::format(
          "Of one row's mean loss; t over {} rows, cut at 0 and 1. Backward: the gradient that "
          "crosses each boundary is compressed; forward: the activation, and the "
          "gradient is taken behind it.",
          request_.gradient_rows)}};
  for (const GradientFinding& g : findings_.gradients) {
    table.Add({Stages(g.of.cuts), Cuts(g.of.cuts), Codec(g.of.codec), ToString(g.of.side),
               Cell(g.nmse, kGradientDigits), Cell(g.cosine, kGradientDigits)});
  }
  return table;
}

// Draws in a folder of its own, of which nothing is left. `why`: why there is no figure.
Figures Draw(const std::string& python, const PriceTables& tables, std::string& why) {
  std::string folder = (std::filesystem::temp_directory_path() / "longhaul-price-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    why = "no folder for figures in " + folder;
    return {};
  }
  absl::Status drawn;
  for (const auto& [name, table] :
       {std::pair("price_depths", &tables.depths), {"price_boundaries", &tables.boundaries}}) {
    if (!drawn.ok()) break;
    drawn = WriteWholeFile(fmt::format("{}/{}.csv", folder, name), Csv(CsvRowsOf(*table)));
  }
  if (drawn.ok()) drawn = DrawPlots(python, {folder}, folder + "/plots.log");
  Figures figures;
  if (!drawn.ok()) why = std::string(drawn.message());
  for (const char* name : {"price_depths", "price_boundaries"}) {
    if (std::string svg = ReadSvg(folder + "/" + name + ".svg"); !svg.empty()) {
      figures[name] = std::move(svg);
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return figures;
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
  return {
      fmt::format("model: {}, {} of {} blocks, width {}, {:.4g} M parameters; SHA-256 {}",
                  input.weights_path, m.kind, m.blocks, m.width,
                  static_cast<double>(ParameterCount(ToModelSpec(input.spec))) / 1e6,
                  input.weights->hash()),
      fmt::format("text: {}, {} tokens; SHA-256 {}", input.tokens_source,
                  input.text->held_out_tokens(), input.text->held_out_hash()),
      fmt::format("rows: {} of {} tokens each, drawn from all {} of the text; intervals are 95 "
                  "%, t over rows",
                  r.rows, r.context, input.text->held_out_rows(r.context)),
      fmt::format("computed by: engine {}, torch {} ({}), codecs {}, {} thread{}", outcome.engine,
                  outcome.torch, outcome.torch_cpu_path, outcome.codec_cpu_path, outcome.threads,
                  outcome.threads == 1 ? "" : "s"),
      fmt::format("uncompressed: {} nat/token", WithInterval(outcome.findings.exact, kNatDigits))};
}

PriceTables::PriceTables(const PriceInput& input, const PriceOutcome& outcome) {
  const Pricing pricing(input.request, outcome.findings);
  depths = pricing.Depths();
  boundaries = pricing.Boundaries();
  worst = pricing.Worst();
  allowed = pricing.Allowed();
  choices = pricing.Choices();
  gradients = pricing.Gradients();
}

std::vector<const Table*> PriceTables::all() const {
  return {&depths, &boundaries, &worst, &allowed, &choices, &gradients};
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
  const PriceTables tables(input, outcome);
  for (const Table* table : tables.all()) {
    if (!table->rows.empty()) text += "\n" + TextOf(*table);
  }
  return text;
}

absl::Status WritePricePage(const std::string& path, const std::string& python,
                            const PriceInput& input, const PriceOutcome& outcome) {
  std::string why;
  const PriceTables tables(input, outcome);
  const Figures figures = Draw(python, tables, why);
  std::string body = "<header><h1>What compressed boundaries cost this model</h1>\n";
  for (const std::string& line : PriceConditions(input, outcome)) {
    body += "<p>" + HtmlEscape(line) + "</p>\n";
  }
  body += "</header>\n";
  for (const std::string& line : PriceWarnings(input, outcome)) {
    body += "<p class=\"first\">" + HtmlEscape(line) + "</p>\n";
  }
  if (!why.empty()) {
    body += "<p class=\"note\">No figures: " + HtmlEscape(why) +
            " (matplotlib is needed to draw).</p>\n";
  }
  body += FigureHtml(figures, "price_depths",
                     "All boundaries of S stages compressed: &Delta; with its 95 % interval over "
                     "rows, by bits an element.");
  body += FigureHtml(figures, "price_boundaries",
                     "Each boundary alone: &Delta; with its 95 % interval, by the block that it "
                     "lies before.");
  for (const Table* table : tables.all()) {
    if (!table->rows.empty()) body += "<section>" + HtmlOf(*table, "h2") + "</section>\n";
  }
  return WriteWholeFile(path, HtmlPage("longhaul: price of boundaries", body));
}

}  // namespace longhaul
