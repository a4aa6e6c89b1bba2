#include "planning/simulator/search.h"

#include "planning/simulator/simulate.h"

namespace longhaul::simulator {

double ValueOf(const Outcome& out, Target target) {
  switch (target) {
    case Target::kLocal:
      return out.local;
    case Target::kQuality:
      return out.quality;
    case Target::kRaw:
      break;
  }
  return out.raw;
}

std::optional<int64_t> FewestNodes(Scenario s, Target target, double at_least, int64_t most,
                                   const std::function<Scenario(const Scenario&)>& adjust) {
  for (s.nodes = 1; s.nodes <= most; ++s.nodes) {
    const Outcome out = adjust ? Simulate(adjust(s)) : Simulate(s);
    if (ValueOf(out, target) >= at_least) return s.nodes;
  }
  return std::nullopt;
}

}  // namespace longhaul::simulator
