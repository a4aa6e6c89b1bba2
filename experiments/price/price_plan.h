#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// What `longhaul price` computes, as plain data. Letters: L blocks of the model, S stages. Estimates,
// tables and choices are Python's: python/longhaul/pricing, which has the arms of any other module too.

// Fewest rows that an interval is made of.
inline constexpr int kLeastPriceRows = 5;

// The tensor that enters block `block` (1 to L - 1) is compressed by codec number `codec` of a list
// that the caller keeps.
struct PricedCrossing {
  int64_t block;
  size_t codec;
  friend auto operator<=>(const PricedCrossing&, const PricedCrossing&) = default;
};

// One way to compress the model's boundaries in one direction: ascending blocks. Empty: nothing is
// compressed.
using PriceArm = std::vector<PricedCrossing>;

// The same codec at every cut.
PriceArm ArmOf(std::span<const int64_t> cuts, size_t codec);

// Where stages 1, 2, ... begin when L blocks are cut into S stages as equal as they can be: stage s
// at floor(s L / S). Cuts of S are among those of 2 S.
std::vector<int64_t> EqualCuts(int64_t blocks, int64_t stages);

// "7,15,22" -> blocks. InvalidArgument: no number, not ascending, outside of 1 to L - 1.
absl::StatusOr<std::vector<int64_t>> ParseCuts(const std::string& text, int64_t blocks);

// Arms without repetitions, each known by its number.
class PriceArms {
 public:
  // The number of the arm, which is added unless it is there.
  size_t Add(const PriceArm& arm);
  // nullopt: not there.
  std::optional<size_t> Find(const PriceArm& arm) const;
  std::span<const PriceArm> all() const { return arms_; }

 private:
  std::vector<PriceArm> arms_;
};

// Arms as a tree of what they have in common: below the root, which compresses nothing, a node adds
// one crossing to its parent's. So everything before a crossing is computed once for all arms that
// agree up to there.
struct PassNode {
  PricedCrossing crossing = {};         // of the root: none
  std::optional<size_t> arm = {};       // the arm that ends here
  std::vector<PassNode> children = {};  // ascending
};
PassNode PassTree(std::span<const PriceArm> arms);

// Forward passes that a tree takes for one row.
struct PassWork {
  int64_t blocks = 0;  // through one block
  int64_t heads = 0;   // final norm, head and loss
  friend bool operator==(const PassWork&, const PassWork&) = default;
};
PassWork WorkOf(const PassNode& root, int64_t blocks);

// What became of one tensor at a boundary, or of several together.
struct BoundaryCount {
  double bits = 0;  // of the frames, headers included
  double elements = 0;
  double squared_error = 0, squared_norm = 0;  // ||x - y||^2, ||x||^2
  double token_error = 0;                      // sum over tokens of |x - y|^2 / |x|^2
  int64_t tokens = 0;
  int64_t tensors = 0;

  BoundaryCount& operator+=(const BoundaryCount& other) {
    bits += other.bits;
    elements += other.elements;
    squared_error += other.squared_error;
    squared_norm += other.squared_norm;
    token_error += other.token_error;
    tokens += other.tokens;
    tensors += other.tensors;
    return *this;
  }
  double bits_per_element() const { return elements > 0 ? bits / elements : 0; }
  double nmse() const { return squared_norm > 0 ? squared_error / squared_norm : 0; }
};

// What is asked of a model. Plain values.
struct PriceRequest {
  std::vector<std::string> codecs;
  std::vector<std::vector<int64_t>> cuts;  // each way to cut the model; S is one more than its size
  int64_t blocks;                          // L
  int64_t rows;                            // to price on; as many more to verify a choice on
  int64_t context;                         // T, tokens of a row
  std::vector<double> allowed_nat;         // losses for which bits are named
  std::optional<double> budget_nat = {};   // of a choice of cuts and codecs
  int64_t move = 0;                        // blocks by which a choice may move a cut
  int64_t gradient_rows = 0;               // the first of `rows`; 0: no gradients
  uint64_t seed = 1;                       // of codecs that draw
};

// What has to be evaluated for it: nothing compressed, each boundary alone (of every cut and, with a
// budget, wherever a choice may put one), all of each way to cut.
PriceArms ArmsOf(const PriceRequest& request);

enum class GradientSide { kForward, kBackward, kBoth };
const char* ToString(GradientSide side);
struct GradientPlan {
  size_t cuts, codec;
  GradientSide side;
};
// Each way to cut with each codec in each direction.
std::vector<GradientPlan> GradientsOf(const PriceRequest& request);

// Of a row each; nat/token where it is a loss.
using RowValues = std::vector<double>;

// What was seen, rows in the order in which they were evaluated.
struct PriceSeen {
  PriceArms arms;
  std::vector<int64_t> windows = {};   // [rows]: where a row lies in the text, in rows
  std::vector<RowValues> losses = {};  // [arm][rows]
  std::map<PricedCrossing, BoundaryCount> forward = {};   // of tensors before which nothing was
  std::map<PricedCrossing, BoundaryCount> backward = {};  // compressed
  std::vector<RowValues> gradient_nmse = {}, gradient_cosine = {};  // [GradientsOf][gradient rows]
};

}  // namespace longhaul
