#include "planning/simulator/assumptions.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "netem/topology/table_reader.h"

namespace longhaul::simulator {
namespace {

constexpr std::string_view kShare = "as a share, not in per cent";

constexpr AssumptionKey kKeys[] = {
    {"q", 0.01, 1, "kept per crossing and direction, as a share, not in per cent",
     [](Factors& f, double v) { f.q = v; }},
    {"gamma", 0, 3, "as the exponent of S - 1", [](Factors& f, double v) { f.gamma = v; }},
    {"byte_ratio", 1, 1e6, "bytes before over bytes after",
     [](Factors& f, double v) { f.forward_ratio = f.backward_ratio = v; }},
    {"alpha_scale", 0, 100, "times the formula's alpha",
     [](Factors& f, double v) { f.alpha_scale = v; }},
    {"eta_h", 0.001, 1, kShare, [](Factors& f, double v) { f.eta_h = v; }},
    {"eta_c", 0.001, 1, kShare, [](Factors& f, double v) { f.eta_c = v; }},
    {"eta_r", 0.001, 1, kShare, [](Factors& f, double v) { f.eta_r = v; }},
    {"straggler", 0, 1, "per doubling of the nodes, as a share, not in per cent",
     [](Factors& f, double v) { f.straggler_coefficient = v; }},
    {"step_time", 0.01, 100, "times the formula's step, not in seconds",
     [](Factors& f, double v) { f.step_time_ratio = v; }},
    // Behind the one of both directions, in whose place it then stands. Draws are by a key's place
    // here: new ones come last.
    {"byte_ratio_backward", 1, 1e6, "bytes before over bytes after",
     [](Factors& f, double v) { f.backward_ratio = v; }},
    {"replica", 0, 1, "per doubling of the replicas, as a share, not in per cent",
     [](Factors& f, double v) { f.replica_coefficient = v; }},
    {"replica_floor", 0, 1, kShare, [](Factors& f, double v) { f.replica_floor = v; }},
};

void ReadFactor(TableReader& r, const TomlValue& value, size_t index, Assumptions& out) {
  const std::string name(kKeys[index].name);
  std::vector<double> v(1);
  if (std::holds_alternative<TomlValue::Array>(value.value)) {
    r.Require(name, &v);
    r.Check(v.size() == 3, name,
            fmt::format("is a list of {}; want a number or [low, mid, high]", v.size()));
  } else {
    r.Require(name, &v[0]);
    v.resize(3, v[0]);
  }
  if (!r.status().ok()) return;
  for (const double one : v) {
    r.Within(name, one, kKeys[index].least, kKeys[index].most, kKeys[index].unit);
  }
  r.Check(v[0] <= v[2], name,
          fmt::format("= [{}] is upside down; want [low, mid, high]", fmt::join(v, ", ")));
  r.Check(v[0] <= v[1] && v[1] <= v[2], name,
          fmt::format("= [{}] has its middle outside its ends; want [low, mid, high]",
                      fmt::join(v, ", ")));
  out.factors.push_back({index, v[0], v[1], v[2]});
}

}  // namespace

std::span<const AssumptionKey> AssumptionKeys() { return kKeys; }

bool Assumptions::uncertain() const {
  return std::any_of(factors.begin(), factors.end(),
                     [](const Assumption& a) { return a.uncertain(); });
}

std::string Assumptions::Text() const {
  std::string text;
  for (const Assumption& a : factors) {
    text += fmt::format("assume {} = {}", a.name(), a.mid);
    text += a.uncertain() ? fmt::format(" in [{}, {}]\n", a.low, a.high) : "\n";
  }
  return text;
}

absl::Status ReadAssumptions(const TomlValue& root, Assumptions* assumptions) {
  TableReader r(root, "assume");
  r.Allow("seed", &assumptions->seed);
  r.Within("seed", assumptions->seed, 0, int64_t{1} << 53);
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    const std::string name(kKeys[i].name);
    r.Skip(name);
    if (r.Has(name) && r.status().ok()) {
      ReadFactor(r, *Find(root, "assume." + name), i, *assumptions);
    }
  }
  return r.Finish();
}

}  // namespace longhaul::simulator
