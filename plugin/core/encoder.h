#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "plugin/core/ticket.h"

namespace longhaul {

// Gives a group's tickets to coders: those that share a state one after another in their order, all
// others at once. Measures the error of every n-th frame. On the strand.
class Encoder {
 public:
  // `changed`: more of that ticket's frame is ready, or its encoding has ended (stage kCoded, with
  // the reason in `failure` where it has failed).
  Encoder(GroupContext* context, std::function<void(const std::shared_ptr<Ticket>&)> changed)
      : context_(context), changed_(std::move(changed)) {}

  // May call `changed` inside the call.
  void Add(SendChannel& channel, std::shared_ptr<Ticket> ticket);

  // The same of a ticket and its copies, whose codec keeps no state: all get one frame, whose noise
  // is the first's.
  void AddCopies(std::shared_ptr<Ticket> ticket);

  // A frame that may not have arrived: what the receiver holds is no longer known, so the next
  // frame of this slot must be one of values, which the receiver takes whatever it holds.
  void ForgetState(SendChannel& channel, const Ticket& ticket);

  // How many tickets each rank was sent with a codec: every n-th is sampled.
  const std::vector<int64_t>& encoded_frames() const { return encoded_frames_; }
  void set_encoded_frames(std::vector<int64_t> frames) { encoded_frames_ = std::move(frames); }

 private:
  void Start(SendChannel& channel);
  // `channel`: nullptr of tickets that came with copies.
  void Give(SendChannel* channel, const std::shared_ptr<Ticket>& ticket);
  void OnUpdate(SendChannel* channel, const std::shared_ptr<Ticket>& ticket, EncodeUpdate update);
  static void Take(const EncodeUpdate& update, Ticket& ticket);
  bool Sampled(int dst);
  void CountSamples();

  GroupContext* const context_;
  const std::function<void(const std::shared_ptr<Ticket>&)> changed_;
  std::vector<int64_t> encoded_frames_;          // by rank
  std::deque<std::shared_ptr<Ticket>> samples_;  // counted in the order of the sends
};

}  // namespace longhaul
