#include "experiments/price/price_page.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "experiments/price/price_tables.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "experiments/report/report_files.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

// Draws in a folder of its own, of which nothing is left. `why`: why there is no figure.
Figures Draw(const std::string& python, const PriceInput& input, const PriceOutcome& outcome,
             std::string& why) {
  std::string folder = (std::filesystem::temp_directory_path() / "longhaul-price-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    why = "no folder for figures in " + folder;
    return {};
  }
  absl::Status drawn =
      WriteReportFile(folder + "/price_depths.csv", PriceDepthsCsv(input, outcome));
  if (drawn.ok()) {
    drawn = WriteReportFile(folder + "/price_boundaries.csv", PriceBoundariesCsv(input, outcome));
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

std::string PriceDepthsCsv(const PriceInput& input, const PriceOutcome& outcome) {
  std::vector<std::vector<std::string>> rows = {
      {"stages", "cuts", "codec", "bits", "delta", "delta_low", "delta_high", "alone_added",
       "alone_added_low", "alone_added_high", "together_less_added", "together_less_added_low",
       "together_less_added_high"}};
  for (const DepthPrice& d : outcome.findings.depths) {
    const std::vector<int64_t>& cuts = input.request.cuts[d.cuts];
    std::vector<std::string>& row = rows.emplace_back(
        std::vector<std::string>{fmt::format("{}", cuts.size() + 1), CutsText(cuts),
                                 input.request.codecs[d.codec], fmt::format("{}", d.bits)});
    AppendCells(row, d.delta);
    AppendCells(row, d.sum_alone);
    if (d.interaction) {
      AppendCells(row, *d.interaction);
    } else {
      row.insert(row.end(), 3, "");
    }
  }
  return Csv(rows);
}

std::string PriceBoundariesCsv(const PriceInput& input, const PriceOutcome& outcome) {
  std::vector<std::vector<std::string>> rows = {
      {"before_block", "codec", "bits", "nmse", "delta", "delta_low", "delta_high"}};
  for (const BoundaryPrice& b : outcome.findings.boundaries) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{
        fmt::format("{}", b.crossing.block), input.request.codecs[b.crossing.codec],
        fmt::format("{}", b.count.bits_per_element()), fmt::format("{}", b.count.nmse())});
    AppendCells(row, b.delta);
  }
  return Csv(rows);
}

absl::Status WritePricePage(const std::string& path, const std::string& python,
                            const PriceInput& input, const PriceOutcome& outcome) {
  std::string why;
  const Figures figures = Draw(python, input, outcome, why);
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
  for (const ReportTable& table : PriceTables(input, outcome)) {
    body += "<section>" + HtmlOf(table, "h2") + "</section>\n";
  }
  return WriteReportFile(path, HtmlPage("longhaul: price of boundaries", body));
}

}  // namespace longhaul
