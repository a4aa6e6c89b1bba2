#include "compressors/states/example_states.h"

namespace longhaul {

CodecState* ExampleStates::For(uint64_t example, Shape shape) {
  const Key key = {example, shape.rows, shape.cols};
  const auto found = states_.find(key);
  if (found != states_.end()) {
    uses_.splice(uses_.end(), uses_, found->second.use);
    return found->second.state.get();
  }
  auto state = end_ == End::kSender ? codec_->NewState(shape) : codec_->NewDecoderState(shape);
  if (state == nullptr) return nullptr;
  bytes_ += state->bytes();
  while (bytes_ > budget_bytes_ && !uses_.empty()) {
    const auto oldest = states_.find(uses_.front());
    bytes_ -= oldest->second.state->bytes();
    states_.erase(oldest);
    uses_.pop_front();
  }
  uses_.push_back(key);
  Held& held = states_[key];
  held = {std::move(state), std::prev(uses_.end())};
  return held.state.get();
}

}  // namespace longhaul
