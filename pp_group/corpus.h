#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// Tokens to train on and to hold out, memory-mapped or built once; immutable, thread safe.
// Rows are `context + 1` consecutive tokens; the held-out part is whole files (built-in corpus) or
// the last 1/64 (single file), fixed by hash and never trained on.
class Corpus {
 public:
  virtual ~Corpus() = default;

  // "text:PATH" raw bytes (vocab 256); "tokens:PATH" little-endian uint16 ids (.bin);
  // "headers:DIR" the text of every header below DIR, sorted by path (the built-in corpus).
  // NotFound, InvalidArgument with the path and what was seen.
  static absl::StatusOr<std::shared_ptr<const Corpus>> Open(const std::string& source,
                                                            int64_t vocab);

  virtual int64_t vocab() const = 0;
  virtual int64_t train_tokens() const = 0;
  virtual int64_t held_out_tokens() const = 0;
  virtual std::string train_hash() const = 0;     // hex; for records
  virtual std::string held_out_hash() const = 0;

  // Row `index` of epoch order under `seed`: context + 1 token ids. Each window of the training
  // part is used once per epoch; rows of one global step are disjoint between groups.
  virtual void TrainRow(uint64_t seed, int64_t index, int64_t context,
                        std::span<int64_t> row) const = 0;
  virtual void HeldOutRow(int64_t index, int64_t context, std::span<int64_t> row) const = 0;
};

}  // namespace longhaul
