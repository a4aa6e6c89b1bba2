#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// Arms by the name of their block. K: crossings; S: stages; every S cuts the model equally.
//
//   block          arms, each at every seed
//   R reference    no arms: the budgets, six (smoke: five), 0.35 more with X or B
//   A controls     control@1: the reference again, bit for bit; A2-order: another number of
//                  micro-batches, so another order of sums; A3-bf16-s8
//   P primary      P-{fwd,bwd,both}-s{2,4,8}; smoke: both alone
//   X strong       X-both-s{2,4,8}
//   B bits         B-{3,4,6,8}bit-s8, both directions
//   G Gaussian     G-both-s{4,8}: noise with the error of the primary pair
//   L location     L-{1,2,6,7}of8: two stages, cut there instead of in the middle
//   T tuning       T-none-lr{0.71,1.41} and T-both-s4-lr{0.71,1.41}, compared with each other
//   E extrapolate  E-both-s16
//   D DiLoCo       D-m{1,2,4}-h{1,10,30}: M groups, H inner steps, no outer codec, every cell with
//                  the reference's global batch; outer.lr and outer.momentum are the base's
//   C outer codec  C-m4-h30-{int4-b64-h64+ef,100x}
//   N local batch  N-dp-m{2,4}, data parallel, and N-m{2,4}-h{1,10,30} against it: every group has
//                  the reference's batch, so that the global one is M times as large
//   J joint        J-s4-m4-h30-{none,...}: the primary pair at four stages inside of the groups;
//                  J-s4, the pipeline alone, where there is no P
//
//   tier      seeds      blocks, where the file names none
//   smoke     3 or more  R P
//   standard  5          R A P X B G
//   full      8          R A P X B G L T; E where 16 divides model.blocks
//
//   [campaign]
//   tier = "standard"
//   blocks = ["R", "P"]                            # may be left out
//   codecs = ["int4-b64-h64", "int8-b64"]          # the primary pair, forward and backward
//   strong_codecs = ["minmax3-b64", "int8-b64"]    # of X
//   noise_codecs = ["gauss-0.0116", "gauss-4e-05"] # of G; needed where `codecs` is not the default
//   replicas = [1, 2, 4]                           # of D and N; C and J take the last of each
//   inner_steps = [1, 10, 30]
//   outer_codecs = ["int4-b64-h64+ef", "100x"]     # of C and J
// What the file says itself stays: seeds, budgets, primary, and [[arm]]s behind those of blocks.

// The keys of [campaign] that say what blocks are made of.
inline constexpr std::string_view kBlockKeys[] = {"codecs",   "strong_codecs", "noise_codecs",
                                                  "replicas", "inner_steps",   "outer_codecs"};

// A campaign's file with its blocks written out as seeds, budgets, control budgets, primary and
// [[arm]]s; without `tier` and `blocks` the file as it is. InvalidArgument with the line: an
// unknown tier or block, a block twice, too few seeds for the tier, blocks of the model that cannot
// be cut as a block wants, arms without budgets.
absl::StatusOr<TomlValue> WithBlocks(TomlValue root);

}  // namespace longhaul
