#include "pp_group/data/corpus.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/data/corpus_files.h"
#include "pp_group/data/mapped_tokens.h"
#include "pp_group/data/row_order.h"

namespace longhaul {
namespace {

// Sum of (id + 1) B^(n - 1 - i) modulo 2^64. Equal windows have equal hashes; others seldom.
constexpr uint64_t kB = 0x9E3779B97F4A7C15u;

uint64_t Hash(const std::vector<int64_t>& window) {
  uint64_t hash = 0;
  for (const int64_t id : window) hash = hash * kB + static_cast<uint64_t>(id) + 1;
  return hash;
}

uint64_t Power(size_t exponent) {
  uint64_t out = 1;
  for (size_t i = 0; i < exponent; ++i) out *= kB;
  return out;
}

// Windows that have not been found, by their hash. Most hashes of a text are of none of them: a bit
// for the upper part of a hash says so, of as few bits as tell nearly all, so that they stay in the
// nearest cache.
class Wanted {
 public:
  explicit Wanted(const std::vector<std::vector<int64_t>>& windows)
      : windows_(windows),
        bits_(std::bit_width(std::clamp(kBitsPerWindow * windows.size(), kFewestBits, kMostBits))),
        seen_(size_t{1} << bits_) {
    for (size_t i = 0; i < windows.size(); ++i) {
      const uint64_t hash = Hash(windows[i]);
      by_hash_.emplace(hash, i);
      seen_[hash >> (64 - bits_)] = true;
    }
  }
  bool all_found() const { return by_hash_.empty(); }

  // Strikes out the windows that the last ids of the text are; the oldest stands at ring[at].
  void Compare(uint64_t hash, const std::vector<int64_t>& ring, size_t at) {
    if (!seen_[hash >> (64 - bits_)]) return;
    for (auto [it, end] = by_hash_.equal_range(hash); it != end;) {
      const std::vector<int64_t>& window = windows_[it->second];
      const auto tail = ring.begin() + static_cast<std::ptrdiff_t>(at);
      const auto rest = window.begin() + (ring.end() - tail);
      const bool equal =
          std::equal(tail, ring.end(), window.begin()) && std::equal(ring.begin(), tail, rest);
      it = equal ? by_hash_.erase(it) : std::next(it);
    }
  }
  int64_t found() const { return static_cast<int64_t>(windows_.size() - by_hash_.size()); }

 private:
  static constexpr size_t kBitsPerWindow = 128, kFewestBits = 1 << 12, kMostBits = 1 << 22;
  const std::vector<std::vector<int64_t>>& windows_;
  const int bits_;
  std::unordered_multimap<uint64_t, size_t> by_hash_;
  std::vector<bool> seen_;
};

// How many of `windows`, all of one length >= 1, are somewhere in `text`, id for id: a rolling hash
// finds them in one pass, and what it finds is compared. Takes a few nanoseconds an id.
int64_t WindowsIn(const MappedTokens& text, const std::vector<std::vector<int64_t>>& windows) {
  if (windows.empty()) return 0;
  Wanted wanted(windows);
  const size_t length = windows.front().size();
  const uint64_t leaving = Power(length);  // what the oldest id counts once another has come
  std::vector<int64_t> ring(length);
  size_t at = 0, filled = 0;
  uint64_t hash = 0;
  text.Visit([&](std::span<const uint32_t> ids) {
    if (wanted.all_found()) return;
    for (const uint32_t id : ids) {
      hash = hash * kB + id + 1;
      if (filled == length) {
        hash -= (static_cast<uint64_t>(ring[at]) + 1) * leaving;
      } else {
        ++filled;
      }
      ring[at] = id;
      at = at + 1 == length ? 0 : at + 1;
      if (filled == length) wanted.Compare(hash, ring, at);
    }
  });
  return wanted.found();
}

constexpr int64_t kByteVocab = 256;
constexpr uint64_t kHeldOutOrder = 0x68656C646F7574;  // any constant: the order is never changed

class TokenCorpus : public Corpus {
 public:
  TokenCorpus(CorpusTokens tokens, int64_t vocab) : tokens_(std::move(tokens)), vocab_(vocab) {}

  int64_t vocab() const override { return vocab_; }
  int64_t train_tokens() const override { return tokens_.train.size(); }
  int64_t held_out_tokens() const override { return tokens_.held_out.size(); }
  std::string train_hash() const override {
    std::call_once(hash_once_, [this] { Hash(); });
    return train_hash_;
  }
  std::string held_out_hash() const override {
    std::call_once(hash_once_, [this] { Hash(); });
    return held_out_hash_;
  }

  void TrainRow(uint64_t seed, int64_t index, int64_t context,
                std::span<int64_t> row) const override {
    tokens_.train.Copy(TrainWindow(seed, index, train_rows(context)) * context, row);
  }
  void HeldOutRow(int64_t index, int64_t context, std::span<int64_t> row) const override {
    tokens_.held_out.Copy(HeldOutWindow(index, context) * context, row);
  }
  int64_t HeldOutWindow(int64_t index, int64_t context) const override {
    const uint64_t rows = static_cast<uint64_t>(held_out_rows(context));
    return static_cast<int64_t>(Permute(static_cast<uint64_t>(index), rows, kHeldOutOrder));
  }
  int64_t HeldOutRowsInTraining(int64_t rows, int64_t context) const override {
    std::vector<std::vector<int64_t>> windows;
    for (int64_t i = 0; i < rows; ++i) {
      HeldOutRow(i, context, windows.emplace_back(static_cast<size_t>(context) + 1));
    }
    return WindowsIn(tokens_.train, windows);
  }

 private:
  void Hash() const {
    train_hash_ = tokens_.train.Hash();
    held_out_hash_ = tokens_.held_out.Hash();
  }

  CorpusTokens tokens_;
  int64_t vocab_;
  mutable std::once_flag hash_once_;
  mutable std::string train_hash_, held_out_hash_;
};

// Bytes and a tokenizer's ids are two vocabularies.
bool IsOfIds(const std::string& source) { return source.starts_with("tokens"); }

absl::StatusOr<CorpusTokens> Read(const std::string& source, int64_t vocab, Part part) {
  const size_t colon = source.find(':');
  const std::string kind = source.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : source.substr(colon + 1);
  if (kind == "tokens") return ReadTokens(path, MappedTokens::Width::kUint16, vocab, part);
  if (kind == "tokens32") return ReadTokens(path, MappedTokens::Width::kUint32, vocab, part);
  if (kind != "text" && kind != "headers") {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus '", source, "': want text:PATH, tokens:PATH, tokens32:PATH or headers:DIR"));
  }
  if (vocab < kByteVocab) {
    return absl::InvalidArgumentError(absl::StrCat("corpus ", source, ": bytes need a vocab of ",
                                                   kByteVocab, " or more, not ", vocab));
  }
  return kind == "text" ? ReadText(path, part) : ReadHeaders(path);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Corpus>> Corpus::Open(const std::string& source, int64_t vocab,
                                                           const std::string& held_out) {
  ASSIGN_OR_RETURN(CorpusTokens tokens,
                   Read(source, vocab, held_out.empty() ? Part::kSplit : Part::kWhole));
  if (!held_out.empty() && IsOfIds(source) != IsOfIds(held_out)) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus ", source, ", evaluated on ", held_out,
                     ": one is text and the other token ids, which mean nothing to each other"));
  }
  if (!held_out.empty()) {
    ASSIGN_OR_RETURN(CorpusTokens evaluated, Read(held_out, vocab, Part::kWhole));
    tokens.held_out = std::move(evaluated.train);
  }
  if (tokens.train.size() < 2 || tokens.held_out.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus ", source, ": ", tokens.train.size(), " tokens to train on and ",
                     tokens.held_out.size(), " held out are too few"));
  }
  return std::make_shared<const TokenCorpus>(std::move(tokens), vocab);
}

}  // namespace longhaul
