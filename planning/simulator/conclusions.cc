#include "planning/simulator/conclusions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

constexpr double kMultiples[] = {1.5, 2, 2.5, 3, 4, 5, 6, 8};  // of the largest that fits a node

double Local(const Adjust& adjust, const Scenario& s) { return Simulate(adjust(s)).local; }

Conclusion Reaches(std::string name, const Scenario& s, double target) {
  return {std::move(name), [s, target](const Adjust& adjust) { return Local(adjust, s) / target; }};
}

Scenario AtRate(Scenario s, double rate) {
  s.wan_up = s.wan_down = rate;
  return s;
}

Scenario Conservative(Scenario s) {
  s.expected = Case::kConservative;
  return s;
}

Scenario OfSize(Scenario s, double multiple) {
  s.parameters = multiple * s.memory_bytes / StateBytesPerParameter(s.precision);
  return s;
}

double Quality(const Adjust& adjust, const Scenario& base, double multiple) {
  return Simulate(adjust(OfSize(base, multiple))).quality;
}

// C_quality of one size over the best of all others, the flat run (1) among them.
Conclusion BestIs(std::string name, const Scenario& base, double multiple) {
  return {std::move(name), [base, multiple](const Adjust& adjust) {
            double others = multiple == 1 ? 0 : Quality(adjust, base, 1);
            for (const double other : kMultiples) {
              if (other != multiple) others = std::max(others, Quality(adjust, base, other));
            }
            return Quality(adjust, base, multiple) / others;
          }};
}

// The best pipelined size over the flat run.
Conclusion PipelineWins(std::string name, const Scenario& base) {
  return {std::move(name), [base](const Adjust& adjust) {
            double best = 0;
            for (const double m : kMultiples) best = std::max(best, Quality(adjust, base, m));
            return best / Quality(adjust, base, 1);
          }};
}

// From 0.995 down to 0.5 in steps of 0.005, then by bisection: two changes within one step are not seen.
std::optional<double> BreakEvenQ(const Conclusion& c) {
  const auto holds = [&c](double q) {
    return c.margin([q](Scenario s) {
      s.measured.q = q;
      return s;
    }) >= 1;
  };
  constexpr int kFrom = 995, kTo = 500, kStep = 5;  // thousandths
  const bool assumed = holds(kFrom / 1000.0);
  for (int at = kFrom - kStep; at >= kTo; at -= kStep) {
    if (holds(at / 1000.0) == assumed) continue;
    double other = at / 1000.0, same = (at + kStep) / 1000.0;
    for (int halving = 0; halving < 40; ++halving) {
      const double middle = (other + same) / 2;
      (holds(middle) == assumed ? same : other) = middle;
    }
    return same;
  }
  return std::nullopt;
}

std::vector<Conclusion> MakeConclusions() {
  constexpr ProfileName kPp = ProfileName::kGovernancePp;
  std::vector<Conclusion> out = {
      Reaches("4 nodes reach 1e24", A100Nodes(4), 1e24),
      Reaches("72 nodes reach 1e25", A100Nodes(72), 1e25),
      Reaches("500 nodes reach 1e26", A100Nodes(500), 1e26),
      Reaches("500 nodes reach 1e26 at 10 Mbit/s", AtRate(A100Nodes(500), 10e6), 1e26),
  };
  for (const char name : {'A', 'B', 'C', 'D', 'E', 'F'}) {
    out.push_back(Reaches(fmt::format("{} reaches 1e27", name), Configuration(name), 1e27));
  }
  const Scenario slow_f = AtRate(Configuration('F'), 10e6);
  out.push_back(Reaches("F reaches 1e27 at 10 Mbit/s", slow_f, 1e27));
  out.push_back(Reaches("F reaches 1e27 at 10 Mbit/s, conservative", Conservative(slow_f), 1e27));
  out.push_back(BestIs("best at 500 nodes: pipelines of 480B", A100Nodes(500, kPp), 2));
  out.push_back(PipelineWins("best at 4000 nodes: pipelines", A100Nodes(4000, kPp)));
  out.push_back(BestIs("best at 4000 nodes: pipelines of 960B", A100Nodes(4000, kPp), 4));
  out.push_back(
      BestIs("best at 2000 H100 FP8 nodes: pipelines of 549B", H100Fp8Nodes(2000, kPp), 6));
  out.push_back(BestIs("best at 72 nodes: flat 240B", A100Nodes(72, kPp), 1));
  out.push_back({"1 Gbit/s to 10 Mbit/s costs at most 14 %", [](const Adjust& adjust) {
                   return Local(adjust, AtRate(A100Nodes(72), 10e6)) /
                          Local(adjust, AtRate(A100Nodes(72), 1e9)) / (1 - 0.14);
                 }});
  out.push_back({"8 stages keep eta_act >= 0.90", [](const Adjust& adjust) {
                   return Simulate(adjust(OfSize(A100Nodes(4000, kPp), 8))).eta_act / 0.90;
                 }});
  for (Conclusion& c : out) c.break_even_q = BreakEvenQ(c);
  return out;
}

}  // namespace

const std::vector<Conclusion>& Conclusions() {
  static const auto* const conclusions = new std::vector<Conclusion>(MakeConclusions());
  return *conclusions;
}

Table BreakEvenTable() {
  Table table{.columns = ColumnsOf("conclusion | with q = 0.995 | changes below q")};
  for (const Conclusion& c : Conclusions()) {
    if (!c.break_even_q) continue;
    const bool holds = c.margin([](const Scenario& s) { return s; }) >= 1;
    table.Add({c.name, holds ? "true" : "false", Cell(*c.break_even_q, "{:.4f}")});
  }
  return table;
}

}  // namespace longhaul::simulator
