#include "experiments/spec/campaign_blocks.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/block_arms.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

constexpr Tier kTiers[] = {{"smoke", 3, "RP"}, {"standard", 5, "RAPXBG"}, {"full", 8, "RAPXBGLTE"}};
constexpr double kDeepBudget = 0.35;  // for arms whose efficiency may be below 0.65

std::vector<std::string_view> BlockNames() {
  std::vector<std::string_view> names;
  for (const Block& block : Blocks()) names.push_back(block.name);
  return names;
}

void ReadTier(TableReader& r, Design& d) {
  std::string name;
  r.Require("tier", &name);
  if (!r.status().ok()) return;
  std::vector<std::string_view> known;
  for (const Tier& tier : kTiers) {
    known.push_back(tier.name);
    if (tier.name == name) d.tier = &tier;
  }
  r.OneOf("tier", name, known);
}

void ReadBlocks(TableReader& r, Design& d) {
  r.Allow("blocks", &d.blocks);
  if (!r.status().ok()) return;
  if (!r.Has("blocks")) {
    for (const char name : d.tier->blocks) {
      if (name != 'E' || d.model_blocks % 16 == 0) d.blocks.emplace_back(1, name);
    }
  }
  r.Check(!d.blocks.empty(), "blocks", "names no block");
  for (const std::string& name : d.blocks) r.OneOf("blocks", name, BlockNames());
  r.Check(std::set<std::string>(d.blocks.begin(), d.blocks.end()).size() == d.blocks.size(),
          "blocks", "names a block twice");
  if (!r.status().ok()) return;
  for (const Block& block : Blocks()) {
    r.Check(!d.Has(block.name) || d.model_blocks % block.divisor == 0,
            r.Has("blocks") ? "blocks" : "tier",
            fmt::format("has block '{}' ({}), which cuts the model into up to {} equal stages: "
                        "model.blocks is {}; want a multiple of {}",
                        block.name, block.what, block.divisor, d.model_blocks, block.divisor));
  }
}

// [forward, backward]; block P compresses each direction alone.
void ReadPair(TableReader& r, const std::string& key, CodecPair* pair) {
  std::vector<std::string> read;
  r.Allow(key, &read);
  if (!r.status().ok() || !r.Has(key)) return;
  r.Check(read.size() == 2, key,
          fmt::format("has {} names; want 2: forward and backward", read.size()));
  for (const std::string& name : read) r.Check(name != "none", key, "compresses one direction");
  if (r.status().ok()) *pair = {read[0], read[1]};
}

// M and H, ascending, so that the last is the cell that C and J are about.
void ReadGrid(TableReader& r, Design& d) {
  r.Allow("replicas", &d.replicas);
  r.Allow("inner_steps", &d.inner_steps);
  r.Allow("outer_codecs", &d.outer_codecs);
  if (!r.status().ok()) return;
  for (const auto& [key, list] :
       {std::pair("replicas", &d.replicas), {"inner_steps", &d.inner_steps}}) {
    r.Check(!list->empty() && list->front() >= 1 && list->back() <= 65536 &&
                std::is_sorted(list->begin(), list->end(), std::less_equal<>()),
            key, "want numbers from 1 to 65536, each above the one before");
  }
  r.Check(!d.Has("C") || !d.outer_codecs.empty(), "outer_codecs",
          "block 'C' (outer codec) has none to try");
  for (const std::string& codec : d.outer_codecs) {
    r.Check(codec != "none", "outer_codecs", "holds \"none\", which block 'D' (DiLoCo) has");
  }
  const bool wanted = d.Has("D") || d.Has("C") || d.Has("J");
  for (const int64_t groups : d.replicas) {
    if (!wanted || !r.status().ok()) return;
    r.Check(d.batch_rows % groups == 0, r.Has("replicas") ? "replicas" : "blocks",
            fmt::format("{} groups share out train.batch_rows = {}, which they do not divide",
                        groups, d.batch_rows));
  }
}

absl::Status ReadBase(const TomlValue& root, Design& d) {
  TableReader model(root, "model"), train(root, "train");
  model.Require("blocks", &d.model_blocks);
  if (model.status().ok()) model.Within("blocks", d.model_blocks, 1, 1024);
  train.Require("batch_rows", &d.batch_rows);
  train.Require("microbatches", &d.microbatches);
  train.Require("lr", &d.lr);
  train.Allow("warmup_steps", &d.warmup_steps);
  if (train.status().ok()) train.Within("batch_rows", d.batch_rows, 1, 1 << 20);
  if (train.status().ok()) train.Within("microbatches", d.microbatches, 1, 65536);
  return model.status().ok() ? train.status() : model.status();
}

absl::StatusOr<Design> ReadDesign(const TomlValue& root) {
  Design d;
  RETURN_IF_ERROR(ReadBase(root, d));
  TableReader r(root, "campaign");
  ReadTier(r, d);
  if (r.status().ok()) ReadBlocks(r, d);
  ReadPair(r, "codecs", &d.codecs);
  ReadPair(r, "strong_codecs", &d.strong);
  ReadPair(r, "noise_codecs", &d.noise);
  if (r.status().ok()) ReadGrid(r, d);
  if (!r.status().ok()) return r.status();
  r.Check(
      !d.Has("G") || !r.Has("codecs") || r.Has("noise_codecs"), "codecs",
      "stands without campaign.noise_codecs, by which block 'G' (Gaussian) imitates its error: run it "
      "once and take the measured NMSE, as [\"gauss-0.0116\", \"gauss-3.55e-05\"]");
  r.Check(!d.Has("A") || OtherMicrobatches(d) != d.microbatches, "tier",
          "has block 'A' (controls), whose arm A2-order wants another number of micro-batches; "
          "train.batch_rows = 1 has one alone");
  r.Check(
      d.Has("R") || r.Has("budgets"), "blocks",
      "has no 'R' (reference) and the campaign no budgets: arms are compared with the reference at "
      "budgets around D0");
  d.where = r.Where(r.Has("blocks") ? "blocks" : "tier");
  if (!r.status().ok()) return r.status();
  return d;
}

template <typename T>
TomlValue List(const std::vector<T>& values, const std::string& where) {
  TomlValue::Array list;
  for (const T& value : values) list.push_back({value, where});
  return {std::move(list), where};
}

// Seeds that the file names, at least as many as the tier wants, or 1, 2, ...
absl::Status FillSeeds(const Design& d, TomlValue& root) {
  TableReader r(root, "campaign");
  std::vector<int64_t> seeds;
  r.Allow("seeds", &seeds);
  if (!r.status().ok()) return r.status();
  if (r.Has("seeds")) {
    const auto given = static_cast<int64_t>(seeds.size());
    r.Check(given >= d.tier->seeds, "seeds",
            fmt::format("are {}; tier '{}' wants at least {}", given, d.tier->name, d.tier->seeds));
    return r.status();
  }
  seeds.resize(static_cast<size_t>(d.tier->seeds));
  std::iota(seeds.begin(), seeds.end(), int64_t{1});
  return SetByPath(root, "campaign.seeds", List(seeds, d.where));
}

absl::Status FillBudgets(const Design& d, TomlValue& root) {
  TableReader r(root, "campaign");
  std::vector<double> controls;
  r.Allow("control_budgets", &controls);
  if (!r.status().ok()) return r.status();
  // The repetition, and two known efficiencies between the budgets below.
  for (const double control : {1.0, 0.9, 0.7}) {
    if (!d.Has("A") || std::find(controls.begin(), controls.end(), control) != controls.end())
      continue;
    controls.push_back(control);
    RETURN_IF_ERROR(SetByPath(root, "campaign.control_budgets", List(controls, d.where)));
  }
  if (r.Has("budgets")) return absl::OkStatus();
  std::vector<double> budgets = {0.5, 0.65, 0.8, 1.0, 1.25};
  if (d.Has("X") || d.Has("B") || d.Has("D") || d.Has("N") || d.Has("J"))
    budgets.insert(budgets.begin(), kDeepBudget);
  return SetByPath(root, "campaign.budgets", List(budgets, d.where));
}

}  // namespace

absl::StatusOr<TomlValue> WithBlocks(TomlValue root) {
  const TableReader r(root, "campaign");
  if (!r.Has("tier") && !r.Has("blocks")) return root;
  ASSIGN_OR_RETURN(Design d, ReadDesign(root));
  RETURN_IF_ERROR(FillSeeds(d, root));
  RETURN_IF_ERROR(FillBudgets(d, root));
  if (d.Has("P") && Find(root, "campaign.primary") == nullptr) {
    RETURN_IF_ERROR(SetByPath(root, "campaign.primary", {std::string("P-both-s4"), d.where}));
  }
  if (absl::Status s = SetByPath(root, "campaign.blocks", List(d.blocks, d.where)); !s.ok()) {
    return s;
  }
  Arms arms(d.where);
  for (const Block& block : Blocks()) {
    if (d.Has(block.name)) block.add(d, arms);
  }
  TomlValue::Array all = arms.Take();
  if (const TomlValue* own = Find(root, "arm")) {
    const auto* list = std::get_if<TomlValue::Array>(&own->value);
    if (list == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: 'arm' is {}, want [[arm]] tables", own->where, KindName(*own)));
    }
    all.insert(all.end(), list->begin(), list->end());
  }
  RETURN_IF_ERROR(SetByPath(root, "arm", {std::move(all), d.where}));
  return root;
}

}  // namespace longhaul
