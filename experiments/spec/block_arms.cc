#include "experiments/spec/block_arms.h"

#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

namespace longhaul {
namespace {

void AddNothing(const Design&, Arms&) {}  // R: budgets are no arms

void AddControls(const Design& d, Arms& arms) {
  arms.Add("A2-order", 1, {"none", "none"});
  arms.Set("train.microbatches", OtherMicrobatches(d));
  arms.Add("A3-bf16-s8", 8, {"bf16", "bf16"});
}

void AddPrimary(const Design& d, Arms& arms) {
  for (const int64_t stages : {2, 4, 8}) {
    if (!d.smoke()) {
      arms.Add(fmt::format("P-fwd-s{}", stages), stages, {d.codecs.forward, "none"});
      arms.Add(fmt::format("P-bwd-s{}", stages), stages, {"none", d.codecs.backward});
    }
    arms.Add(fmt::format("P-both-s{}", stages), stages, d.codecs);
  }
}

void AddStrong(const Design& d, Arms& arms) {
  for (const int64_t stages : {2, 4, 8}) {
    arms.Add(fmt::format("X-both-s{}", stages), stages, d.strong);
  }
}

void AddBits(const Design&, Arms& arms) {
  for (const int bits : {3, 4, 6, 8}) {
    const std::string codec = fmt::format("minmax{}-b64", bits);
    arms.Add(fmt::format("B-{}bit-s8", bits), 8, {codec, codec});
  }
}

void AddNoise(const Design& d, Arms& arms) {
  for (const int64_t stages : {4, 8}) {
    arms.Add(fmt::format("G-both-s{}", stages), stages, d.noise);
  }
}

// Equal cuts are nested, so depth and position go together in all other blocks.
void AddLocations(const Design& d, Arms& arms) {
  for (const int64_t eighth : {1, 2, 6, 7}) {
    arms.Add(fmt::format("L-{}of8", eighth), 2, d.codecs);
    arms.Set("schedule.cuts", TomlValue::Array{{d.model_blocks / 8 * eighth, d.where}});
  }
}

void AddTuning(const Design& d, Arms& arms) {
  for (const double factor : {0.71, 1.41}) {
    // Six digits: the product's own last ones are noise of binary fractions.
    const double lr = std::strtod(fmt::format("{:.6g}", factor * d.lr).c_str(), nullptr);
    const std::string partner = fmt::format("T-none-lr{}", factor);
    arms.Add(partner, 1, {"none", "none"});
    arms.Set("train.lr", lr);
    arms.Add(fmt::format("T-both-s4-lr{}", factor), 4, d.codecs);
    arms.Set("train.lr", lr);
    arms.Set("reference", partner);
  }
}

void AddExtrapolation(const Design& d, Arms& arms) {
  arms.Add("E-both-s16", 16, d.codecs);
  arms.Set("held_out", true);
}

// M groups share out the reference's batch: every step sees the same rows.
void AddOuterStep(const Design& d, int64_t groups, int64_t inner_steps, const std::string& codec,
                  Arms& arms) {
  arms.Set("outer.groups", groups);
  arms.Set("outer.inner_steps", inner_steps);
  arms.Set("outer.codec", codec);
  arms.Set("train.batch_rows", d.batch_rows / groups);
  arms.Set("train.microbatches", std::gcd(d.microbatches, d.batch_rows / groups));
}

void AddReplicas(const Design& d, Arms& arms) {
  for (const int64_t groups : d.replicas) {
    for (const int64_t inner_steps : d.inner_steps) {
      arms.Add(fmt::format("D-m{}-h{}", groups, inner_steps), 1, {"none", "none"});
      AddOuterStep(d, groups, inner_steps, "none", arms);
    }
  }
}

// Every group has the reference's batch: M times the rows a step, in an M-th of the steps.
void AddLocalBatch(const Design& d, Arms& arms) {
  for (const int64_t groups : d.replicas) {
    if (groups == 1) continue;  // block D has it
    const std::string reference = fmt::format("N-dp-m{}", groups);
    const auto add = [&](const std::string& name) {
      arms.Add(name, 1, {"none", "none"});
      arms.Set("outer.groups", groups);
      arms.Set("outer.codec", std::string("none"));
      if (d.warmup_steps) arms.Set("train.warmup_steps", *d.warmup_steps / groups);
    };
    add(reference);
    arms.Set("outer.algorithm", std::string("dp"));
    for (const int64_t inner_steps : d.inner_steps) {
      add(fmt::format("N-m{}-h{}", groups, inner_steps));
      arms.Set("outer.inner_steps", inner_steps);
      arms.Set("reference", reference);
    }
  }
}

void AddOuterCodecs(const Design& d, Arms& arms) {
  const int64_t groups = d.replicas.back(), inner_steps = d.inner_steps.back();
  for (const std::string& codec : d.outer_codecs) {
    arms.Add(fmt::format("C-m{}-h{}-{}", groups, inner_steps, codec), 1, {"none", "none"});
    AddOuterStep(d, groups, inner_steps, codec, arms);
  }
}

// The primary pair at four stages inside of the groups of D and C. Without P, which has it, also
// the pipeline alone.
void AddJointCells(const Design& d, Arms& arms) {
  const int64_t groups = d.replicas.back(), inner_steps = d.inner_steps.back();
  if (!d.Has("P")) arms.Add("J-s4", 4, d.codecs);
  std::vector<std::string> codecs = d.outer_codecs;
  codecs.insert(codecs.begin(), "none");
  for (const std::string& codec : codecs) {
    arms.Add(fmt::format("J-s4-m{}-h{}-{}", groups, inner_steps, codec), 4, d.codecs);
    AddOuterStep(d, groups, inner_steps, codec, arms);
  }
}

constexpr Block kBlocks[] = {
    {"R", "reference", 1, AddNothing},
    {"A", "controls", 8, AddControls},
    {"P", "primary", 8, AddPrimary},
    {"X", "strong", 8, AddStrong},
    {"B", "bits", 8, AddBits},
    {"G", "Gaussian", 8, AddNoise},
    {"L", "location", 8, AddLocations},
    {"T", "tuning", 4, AddTuning},
    {"E", "extrapolation", 16, AddExtrapolation},
    {"D", "DiLoCo", 1, AddReplicas},
    {"N", "local batch", 1, AddLocalBatch},
    {"C", "outer codec", 1, AddOuterCodecs},
    {"J", "joint", 4, AddJointCells},
};

}  // namespace

int64_t OtherMicrobatches(const Design& d) {
  if (d.microbatches % 2 == 0) return d.microbatches / 2;
  return d.microbatches == 1 ? d.batch_rows : 1;
}

std::span<const Block> Blocks() { return kBlocks; }

}  // namespace longhaul
