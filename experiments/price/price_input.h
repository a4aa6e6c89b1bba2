#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "experiments/price/price_plan.h"
#include "experiments/spec/spec.h"
#include "experiments/train/model_weights.h"
#include "pp_group/data/corpus.h"

namespace longhaul {

// The codecs of a pricing. Each tensor is encoded into a frame and decoded from it, as a sender and
// a receiver do. Not thread safe.
class PriceCodecs {
 public:
  // NotFound: a name that the catalogue has not. InvalidArgument: a codec that keeps a state from
  // tensor to tensor (+ef, aqsgd4, ...): rows are priced apart, each as if it came first; a name
  // twice.
  static absl::StatusOr<PriceCodecs> Make(const std::vector<std::string>& names);

  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return names_.size(); }

  // x: [shape] f32 -> y: what the receiver has of it. `seed`: of codecs that draw. InvalidArgument
  // with the codec's name: NaN or Inf in x.
  absl::StatusOr<BoundaryCount> Cross(size_t codec, uint64_t seed, Shape shape,
                                      std::span<const float> x, std::span<float> y);

 private:
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const Codec>> codecs_;
  std::vector<std::byte> frame_;
};

// What a user asks of `longhaul price`, as it was typed. Empty and nullopt: not given.
struct PriceOptions {
  std::string weights;  // a safetensors file, an index of several, or a folder with one of them
  std::string model;    // a file with [model]; empty: model.toml beside the weights
  std::string tokens;   // FILE.bin, or a source as data.source has it
  std::vector<std::string> codecs;
  std::vector<int64_t> stages;    // 2, 4 and 8 as far as the model has blocks
  std::vector<std::string> cuts;  // each as ParseCuts
  std::optional<int64_t> rows;
  std::optional<int64_t> context;
  std::optional<double> budget_nat;
  std::optional<int64_t> move;
  std::vector<double> allowed_nat;
  std::optional<int64_t> gradient_rows;
  uint64_t seed = 1;
  std::string device = "cpu", dtype = "float32";  // as train.device and train.dtype
};

// Figures that stand for what was not given.
inline constexpr int64_t kPriceRows = 32, kPriceContext = 512, kPriceMove = 1;
inline constexpr int64_t kPriceGradientRows = 8;

// The file of weights that a folder has; of both forms the one that transformers and `import` read. A file is itself.
std::string WeightsIn(const std::string& path);

// All of it read and checked, nothing computed.
struct PriceInput {
  PriceRequest request;
  RunSpec spec;  // the model, with the context that rows have
  std::string weights_path, model_path, tokens_source;
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<const Corpus> text;
  // Of the rows that are priced, those that stand in the text from which the file of the model says
  // that it trains (`data.source`), id for id; 0 where it says nothing or that text is not there.
  int64_t rows_trained_on = 0;
  std::string trained_source;
};

// One line for each thing that can be wrong: files that are not there or of another kind, weights of
// another shape or dtype, ids beyond the vocabulary, too few rows for an interval, too short a text,
// codecs that do not exist or keep a state, cuts or stages that the model has not, a context that is
// not the model's. Statuses as the readers have them; InvalidArgument.
absl::StatusOr<PriceInput> ReadPriceInput(const PriceOptions& options);

}  // namespace longhaul
