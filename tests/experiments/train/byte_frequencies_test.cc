#include "experiments/train/spec_corpus.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// Held-out windows as given; nothing to train on.
class Rows final : public Corpus {
 public:
  explicit Rows(std::vector<std::vector<int64_t>> rows) : rows_(std::move(rows)) {}
  int64_t vocab() const override { return 256; }
  int64_t train_tokens() const override { return 0; }
  int64_t held_out_tokens() const override { return 0; }
  std::string train_hash() const override { return ""; }
  std::string held_out_hash() const override { return ""; }
  void TrainRow(uint64_t, int64_t, int64_t, std::span<int64_t>) const override {}
  void HeldOutRow(int64_t index, int64_t, std::span<int64_t> row) const override {
    const auto& from = rows_[static_cast<size_t>(index)];
    for (size_t i = 0; i < row.size(); ++i) row[i] = from[i];
  }
  int64_t HeldOutWindow(int64_t index, int64_t) const override { return index; }
  int64_t HeldOutRowsInTraining(int64_t, int64_t) const override { return 0; }

 private:
  std::vector<std::vector<int64_t>> rows_;
};

// What a window begins with is not predicted and does not count: of the first two windows 1, 1, 2, 3
// are, so that 1 has a half and the others a quarter each.
TEST(UnigramEntropy, IsThatOfThePredictedTokensOfTheRowsAskedFor) {
  const Rows corpus({{9, 1, 1}, {9, 2, 3}, {9, 200, 200}});
  EXPECT_NEAR(UnigramEntropy(corpus, 2, 2), 1.5 * std::log(2.0), 1e-15);
  EXPECT_EQ(UnigramEntropy(Rows({{9, 7, 7}}), 1, 2), 0);
}

}  // namespace
}  // namespace longhaul
