#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/simulator/result_table.h"

namespace longhaul::simulator {

inline constexpr size_t kUncertainDraws = 10000;

// A number in (0, 1) that depends on seed, draw and source alone: the same on every machine.
double Uniform(uint64_t seed, uint64_t draw, uint64_t source);
// The u-quantile of the triangular distribution on low..high with its peak at mid; 0 <= u <= 1,
// low <= mid <= high.
double TriangularQuantile(double low, double mid, double high, double u);

// A reported quantity over the draws: all factors vary, independently.
struct Spread {
  const char* quantity;
  double mid;                // every factor at its middle
  double low, median, high;  // 5, 50 and 95 % of the draws
  double lower_quartile, upper_quartile;
};

// A reported quantity as one factor goes from low to high, the others at their middle.
struct Lever {
  const char* quantity;
  std::string factor;
  double factor_low, factor_high;
  double at_low, at_mid, at_high;
  double moves() const;  // the most less the least of the three
};

struct Uncertainty {
  std::vector<Spread> spreads;  // of every column, in the order of Quantities()
  std::vector<Lever> levers;    // that move; by column, the one that moves it most first
};
Uncertainty Propagate(const Scenario& scenario, const Assumptions& assumptions);

// One scenario of a file and what comes of the ranges.
struct UncertainRow {
  std::string name;
  std::vector<size_t> at;
  Uncertainty uncertainty;
};
// The terminal's: of the first scenarios the quantities that move and the tornado of C_local and,
// where counted, C_quality.
std::string UncertaintyText(const ScenarioFile& file, const std::vector<UncertainRow>& rows);
// One line for each scenario and column; and for each scenario, column and factor that moves it.
std::string SpreadCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows);
std::string TornadoCsv(const ScenarioFile& file, const std::vector<UncertainRow>& rows);
// {"seed":...,"draws":...,"scenarios":[{"at":...,"spreads":[...],"tornado":[...]}]}
std::string UncertaintyJson(const ScenarioFile& file, const std::vector<UncertainRow>& rows);

}  // namespace longhaul::simulator
