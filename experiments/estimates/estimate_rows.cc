#include "experiments/estimates/estimate_rows.h"

namespace longhaul {

EstimateRow EstimateWithout(const std::string& arm, const std::string& evaluation,
                            const std::string& quantity, const std::string& unit, int64_t seeds,
                            const std::string& note) {
  EstimateRow row;
  row.arm = arm;
  row.evaluation = evaluation;
  row.quantity = quantity;
  row.unit = unit;
  row.method = std::string("none");
  row.seeds = seeds;
  row.note = note;
  return row;
}

void AddEstimate(std::vector<EstimateRow>& rows, const std::string& arm,
                 const std::string& evaluation, const std::string& quantity,
                 const std::string& unit, const Measured& x, int64_t seeds,
                 const std::string& note) {
  EstimateRow row = EstimateWithout(arm, evaluation, quantity, unit, seeds, note);
  row.value = x.value;
  if (x.bound == Bound::kUpper) {
    row.method = std::string("<=");
    if (x.interval) row.level = x.interval->level;
  } else if (x.interval) {
    row.low = x.interval->low;
    row.high = x.interval->high;
    row.level = x.interval->level;
    row.method = x.interval->method + (x.bound == Bound::kLowEnd ? ", low end <=" : "");
  } else if (note.empty()) {
    row.note = std::string(seeds < 2 ? "one seed gives no interval" : "the interval is unbounded");
  }
  rows.push_back(std::move(row));
}

}  // namespace longhaul
