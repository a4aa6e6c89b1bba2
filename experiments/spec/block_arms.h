#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netem/topology/toml_tree.h"

// What the blocks of campaign_blocks.h consist of. Private to campaign_blocks.cc and block_arms.cc:
// to add a block, write its Add there and a line of Blocks().
namespace longhaul {

struct CodecPair {
  std::string forward, backward;
};

struct Tier {
  std::string_view name;
  int64_t seeds;            // at least
  std::string_view blocks;  // a letter each
};
// What blocks are expanded from.
struct Design {
  const Tier* tier = nullptr;
  std::vector<std::string> blocks;
  CodecPair codecs{"int4-b64-h64", "int8-b64"};
  CodecPair strong{"minmax3-b64", "int8-b64"};
  // What the primary pair loses on a Gaussian (docs/codecs.md).
  CodecPair noise{"gauss-0.0116", "gauss-3.55e-05"};
  // Of D, C and J.
  std::vector<int64_t> replicas = {1, 2, 4}, inner_steps = {1, 10, 30};
  std::vector<std::string> outer_codecs = {"int4-b64-h64+ef", "100x"};
  int64_t model_blocks = 0, batch_rows = 0, microbatches = 0;
  std::optional<int64_t> warmup_steps = {};  // where none are given every arm gets its own share
  double lr = 0;
  std::string where;

  bool Has(std::string_view block) const {
    return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }
  bool smoke() const { return tier->name == "smoke"; }
};

// Arms as a file would write them.
class Arms {
 public:
  explicit Arms(std::string where) : where_(std::move(where)) {}

  void Add(std::string name, int64_t stages, CodecPair codecs) {
    list_.push_back({TomlValue::Table{}, where_});
    Set("name", std::move(name));
    Set("stages", stages);
    Set("forward", std::move(codecs.forward));
    Set("backward", std::move(codecs.backward));
  }
  // A key of the arm that was added last. No path of ours goes through a value.
  template <typename T>
  void Set(std::string_view path, T value) {
    SetByPath(list_.back(), path, {std::move(value), where_}).IgnoreError();
  }
  TomlValue::Array Take() { return std::move(list_); }

 private:
  const std::string where_;
  TomlValue::Array list_;
};

struct Block {
  std::string_view name;
  std::string_view what;  // its name in words, as in docs/campaigns.md
  int64_t divisor;        // of model.blocks: the deepest S that the block cuts it into
  void (*add)(const Design&, Arms&);
};
// Of arm A2-order: half as many micro-batches, or another number that divides the rows.
int64_t OtherMicrobatches(const Design& d);

// In the order in which their arms stand in a campaign.
std::span<const Block> Blocks();

}  // namespace longhaul
