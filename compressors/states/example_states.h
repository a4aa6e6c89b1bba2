#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "compressors/codec.h"

namespace longhaul {

// One end's states by example, for codecs whose state belongs to what is sent and not to where
// (aqsgd*): an epoch later the same example meets its own state again. Keeps within a budget by
// forgetting the example that was asked for longest ago. Both ends that ask for the same examples
// in the same order forget the same ones; a forgotten example's next frame is a first visit. Not
// thread safe.
class ExampleStates {
 public:
  enum class End { kSender, kReceiver };
  // budget_bytes: of all states together (CodecState::bytes); the one asked for last always stays.
  ExampleStates(std::shared_ptr<const Codec> codec, End end, size_t budget_bytes)
      : codec_(std::move(codec)), end_(end), budget_bytes_(budget_bytes) {}

  // The state for this example's tensor, made where there is none; valid until the next call.
  // nullptr: the codec keeps none at this end. An example whose tensor changes its shape (another
  // sequence length) has a state per shape.
  CodecState* For(uint64_t example, Shape shape);

  size_t bytes() const { return bytes_; }
  size_t size() const { return states_.size(); }

 private:
  struct Key {
    uint64_t example, rows, cols;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Held {
    std::unique_ptr<CodecState> state;
    std::list<Key>::iterator use;
  };
  const std::shared_ptr<const Codec> codec_;
  const End end_;
  const size_t budget_bytes_;
  std::map<Key, Held> states_;
  std::list<Key> uses_;  // longest ago first
  size_t bytes_ = 0;
};

}  // namespace longhaul
