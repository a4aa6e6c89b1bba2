#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/estimates/table.h"
#include "experiments/price/price_run.h"

namespace longhaul {

// Conditions, a line each: model, text, rows, what computed it, the uncompressed loss.
std::vector<std::string> PriceConditions(const PriceInput& input, const PriceOutcome& outcome);
// Each finding once; some may have no rows.
struct PriceTables {
  PriceTables(const PriceInput& input, const PriceOutcome& outcome);
  Table depths, boundaries, worst, allowed, choices, gradients;
  std::vector<const Table*> all() const;  // in this order
};
// What a reader must know before a figure: rows that are alike. May be empty.
std::vector<std::string> PriceWarnings(const PriceInput& input, const PriceOutcome& outcome);

std::string PriceText(const PriceInput& input, const PriceOutcome& outcome);

// Every row's loss: part (priced, verified), row, window, S, cuts, codecs, loss and uncompressed
// loss; and, of gradients, NMSE and cosine. With a head of names and units.
std::string PriceRowsCsv(const PriceInput& input, const PriceOutcome& outcome);

// "longhaul.price/1": everything of the tables and conditions, unrounded, with intervals; units in
// keys.
std::string PriceJson(const PriceInput& input, const PriceOutcome& outcome);

// "7 int8-b64, 15 int4-b64"
std::string ArmText(const PriceArm& arm, const std::vector<std::string>& codecs);

// A pricing as one self-contained page. `python`: an interpreter with matplotlib; without one the
// page says so and has no figures. ResourceExhausted, PermissionDenied: with the path.
absl::Status WritePricePage(const std::string& path, const std::string& python,
                            const PriceInput& input, const PriceOutcome& outcome);

}  // namespace longhaul
