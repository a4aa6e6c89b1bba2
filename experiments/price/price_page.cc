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
    drawn = WriteReportFile(fmt::format("{}/{}.csv", folder, name), Csv(CsvRowsOf(*table)));
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
  return WriteReportFile(path, HtmlPage("longhaul: price of boundaries", body));
}

}  // namespace longhaul
