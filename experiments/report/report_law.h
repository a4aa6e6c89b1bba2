#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/price_law_cells.h"
#include "experiments/report/report_data.h"

namespace longhaul {

// Several campaigns beside each other: how the price of a crossing goes with size and tokens.

// A model and a length to foretell: N parameters, D tokens.
struct LawAim {
  double parameters, tokens;
};
// "435264:8706048". InvalidArgument: anything else.
absl::StatusOr<LawAim> ReadLawAim(const std::string& text);

// A law of -ln eta and one of Delta: of one arm in every cell that has it, or ("") of all arms with a
// codec forward.
struct ArmLaw {
  std::string arm;
  bool loss = false;  // of Delta
  std::vector<PricePoint> points = {};
  std::optional<PriceLaw> law = std::nullopt;
  std::string note = {};  // why there is none
};

struct LawReport {
  std::vector<PriceCell> cells;
  std::vector<ArmLaw> laws;
  std::vector<LawAim> aims;
};

// FailedPrecondition: no cell.
absl::StatusOr<LawReport> MakeLawReport(std::vector<PriceCell> cells, std::vector<LawAim> aims);

// Cells, prices, exponents with what they say of token and of loss transfer, and what is foretold.
std::string LawText(const LawReport& report);
// law.csv: a row for each arm of each cell with both prices and their fits; law_terms.csv: a row for
// each term of each law; law_aims.csv: a row for each price foretold.
CsvRows LawCsv(const LawReport& report);
CsvRows LawTermsCsv(const LawReport& report);
CsvRows LawAimsCsv(const LawReport& report);

// Writes the three files and law.svg into `out`. Where the figure cannot be drawn, the second says
// why.
absl::StatusOr<std::string> WriteLaw(const LawReport& report, const std::string& python,
                                     const std::string& out);

}  // namespace longhaul
