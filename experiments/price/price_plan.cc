#include "experiments/price/price_plan.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "netem/topology/toml_tree.h"

namespace longhaul {

PriceArm ArmOf(std::span<const int64_t> cuts, size_t codec) {
  PriceArm arm;
  for (const int64_t block : cuts) arm.push_back({block, codec});
  return arm;
}

std::vector<int64_t> EqualCuts(int64_t blocks, int64_t stages) {
  std::vector<int64_t> cuts;
  for (int64_t s = 1; s < stages; ++s) cuts.push_back(s * blocks / stages);
  return cuts;
}

absl::StatusOr<std::vector<int64_t>> ParseCuts(const std::string& text, int64_t blocks) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(fmt::format(
        "--cuts '{}': want ascending numbers of blocks from 1 to {} with commas between "
        "them, where stages 1, 2, ... begin",
        Shown(text), blocks - 1));
  };
  std::vector<int64_t> cuts;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    int64_t block = 0;
    const auto [next, error] = std::from_chars(at, end, block);
    if (error != std::errc() || block < 1 || block >= blocks) return bad();
    if (!cuts.empty() && block <= cuts.back()) return bad();
    cuts.push_back(block);
    if (next == end) return cuts;
    if (*next != ',') return bad();
    at = next + 1;
  }
}

size_t PriceArms::Add(const PriceArm& arm) {
  if (const std::optional<size_t> found = Find(arm)) return *found;
  arms_.push_back(arm);
  return arms_.size() - 1;
}

std::optional<size_t> PriceArms::Find(const PriceArm& arm) const {
  const auto found = std::find(arms_.begin(), arms_.end(), arm);
  if (found == arms_.end()) return std::nullopt;
  return static_cast<size_t>(found - arms_.begin());
}

PassNode PassTree(std::span<const PriceArm> arms) {
  PassNode root;
  for (size_t a = 0; a < arms.size(); ++a) {
    PassNode* node = &root;
    for (const PricedCrossing& crossing : arms[a]) {
      const auto at = std::lower_bound(
          node->children.begin(), node->children.end(), crossing,
          [](const PassNode& child, const PricedCrossing& c) { return child.crossing < c; });
      const bool there = at != node->children.end() && at->crossing == crossing;
      node = there ? &*at : &*node->children.insert(at, PassNode{.crossing = crossing});
    }
    node->arm = a;
  }
  return root;
}

namespace {

void AddWork(const PassNode& node, int64_t begin, int64_t blocks, PassWork& work) {
  // What ends here goes to the model's end; else as far as the last that branches off.
  const int64_t end = node.arm ? blocks : node.children.back().crossing.block;
  work.blocks += end - begin;
  work.heads += node.arm ? 1 : 0;
  for (const PassNode& child : node.children) {
    AddWork(child, child.crossing.block, blocks, work);
  }
}

}  // namespace

PassWork WorkOf(const PassNode& root, int64_t blocks) {
  PassWork work;
  if (root.arm || !root.children.empty()) AddWork(root, 0, blocks, work);
  return work;
}

namespace {

std::set<int64_t> PricedBlocks(const PriceRequest& request) {
  std::set<int64_t> blocks;
  const int64_t move = request.budget_nat ? request.move : 0;
  for (const std::vector<int64_t>& cuts : request.cuts) {
    for (const int64_t cut : cuts) {
      const int64_t most = std::min(request.blocks - 1, cut + move);
      for (int64_t b = std::max<int64_t>(1, cut - move); b <= most; ++b) blocks.insert(b);
    }
  }
  return blocks;
}

}  // namespace

PriceArms ArmsOf(const PriceRequest& request) {
  PriceArms arms;
  arms.Add({});
  for (const int64_t block : PricedBlocks(request)) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) arms.Add({{block, codec}});
  }
  for (const std::vector<int64_t>& cuts : request.cuts) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) arms.Add(ArmOf(cuts, codec));
  }
  return arms;
}

const char* ToString(GradientSide side) {
  switch (side) {
    case GradientSide::kForward:
      return "forward";
    case GradientSide::kBackward:
      return "backward";
    case GradientSide::kBoth:
      return "both";
  }
  return "";
}

std::vector<GradientPlan> GradientsOf(const PriceRequest& request) {
  std::vector<GradientPlan> plans;
  for (size_t cuts = 0; cuts < request.cuts.size(); ++cuts) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) {
      for (const auto side :
           {GradientSide::kForward, GradientSide::kBackward, GradientSide::kBoth}) {
        plans.push_back({cuts, codec, side});
      }
    }
  }
  return plans;
}

}  // namespace longhaul
