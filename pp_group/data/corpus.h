#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longhaul {

// Tokens to train on and to hold out; immutable, thread safe; files are mapped, not read into this
// process's memory, and must not change while a corpus is open. A window of `context` T is T + 1
// consecutive tokens (inputs and their successors); windows start every T tokens, so each token is
// predicted once per epoch. The held-out part is fixed by the data alone and never trained on.
class Corpus {
 public:
  virtual ~Corpus() = default;

  // "text:PATH"      raw bytes, vocab >= 256
  // "tokens:PATH"    little-endian uint16 ids; a header of 256 int32 that starts with 20240520, 1,
  //                  count (the format of GPT trainers such as llm.c) is recognised and skipped
  // "tokens32:PATH"  the same with uint32 ids and 20240801, 7, count
  // "headers:DIR"    bytes of every *.h below DIR in the order of their relative paths, to 64 MiB:
  //                  the built-in corpus, with DIR the include folder of torch; vocab >= 256
  // PATH: one or more with commas between them, each a file or a pattern with * and ?, whose
  // matches come in the order of their names; their tokens follow one another. Held out: all of
  // `held_out`, a source like these but for "headers", and nothing of `source`; or, where it is
  // empty, of files their last 1/64; of "headers" each file whose path hashes to 0 modulo 32.
  // NotFound, InvalidArgument with the path and what was seen: unknown kind, a file of another kind
  // (corpus_format.h), text evaluated on ids or ids on text, an id beyond vocab, a header that lies about its length, too little text.
  static absl::StatusOr<std::shared_ptr<const Corpus>> Open(const std::string& source,
                                                            int64_t vocab,
                                                            const std::string& held_out = "");

  virtual int64_t vocab() const = 0;
  virtual int64_t train_tokens() const = 0;
  virtual int64_t held_out_tokens() const = 0;
  // SHA-256 of the tokens as little-endian uint16 (uint32 for tokens32), hex; for records. Computed
  // at first use.
  virtual std::string train_hash() const = 0;
  virtual std::string held_out_hash() const = 0;

  // How many windows there are; index beyond train_rows() starts the next epoch.
  int64_t train_rows(int64_t context) const { return (train_tokens() - 1) / context; }
  int64_t held_out_rows(int64_t context) const { return (held_out_tokens() - 1) / context; }

  // Row `index` of the order of `seed`: context + 1 token ids. Every epoch is another permutation
  // of all windows. Distinct indices of one epoch are disjoint windows: group g of G takes, at step
  // t, the rows (t G + g) B + 0..B-1, so G groups of B rows train on the rows of one group of G B.
  virtual void TrainRow(uint64_t seed, int64_t index, int64_t context,
                        std::span<int64_t> row) const = 0;
  // Held-out window `index` < held_out_rows(context), in one fixed shuffled order: any number of
  // first rows is a sample of the whole held-out part.
  virtual void HeldOutRow(int64_t index, int64_t context, std::span<int64_t> row) const = 0;
  // Where that window lies: it begins `context` times this many tokens after the first held-out one.
  virtual int64_t HeldOutWindow(int64_t index, int64_t context) const = 0;
  // How many of the first `rows` <= held_out_rows(context) held-out windows are somewhere in the
  // tokens to train on, id for id: what is evaluated on them is no unseen text.
  virtual int64_t HeldOutRowsInTraining(int64_t rows, int64_t context) const = 0;
};

}  // namespace longhaul
