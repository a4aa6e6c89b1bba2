#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plugin/core/crossing.h"

namespace longhaul {

// The place of one send in its channel, reserved at the call: number, noise and state are settled
// then, whatever is encoded first. On the strand but for what is marked.
struct Ticket {
  ChannelKey key;
  std::shared_ptr<OutMessage> message;
  WireTensor x;
  absl::Status failure;  // it will be given up when its turn has come
  bool submitted = false;
  absl::Duration submitted_at, coded_at;  // where a watch is told; else zero

  // Of one with a codec.
  const Codec* codec = nullptr;
  size_t slot = 0;
  bool stateful = false;
  enum class Stage { kWaiting, kCoding, kCoded } stage = Stage::kCoded;
  bool forget_state = false;                    // once it is coded
  bool sampled = false;                         // its error is measured
  std::optional<double> nmse;                   // the coder's until it is coded, like the next two
  void* decoded = nullptr;                      // wanted: what the receiver will hold
  std::vector<std::shared_ptr<Ticket>> copies;  // the same frame to other ranks
  absl::Status decode_status;                   // of filling it
  std::atomic<bool> abandoned = false;          // any thread
  absl::Duration encode_time;
  bool on_device = false;
};

// One channel's sending end.
struct SendChannel {
  uint64_t next_sequence = 0;
  uint64_t wanted_below = 0;
  std::vector<std::unique_ptr<CodecState>> residuals;  // states of the codec, by slot
  std::deque<std::shared_ptr<Ticket>> unsubmitted;     // first packets leave in this order
  std::deque<std::shared_ptr<Ticket>> uncoded;         // in order: what waits for its encoding
};

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

  // Whether the next frame to that rank is one whose error is measured; and that it went, by a crossing.
  bool NextIsSampled(int dst) const;
  void CountCrossed(int dst, const Crossing& crossing);

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
  void CountNmse(int dst, int tag, const Codec& codec, double nmse);
  void CountSamples();

  GroupContext* const context_;
  const std::function<void(const std::shared_ptr<Ticket>&)> changed_;
  std::vector<int64_t> encoded_frames_;          // by rank
  std::deque<std::shared_ptr<Ticket>> samples_;  // counted in the order of the sends
};

}  // namespace longhaul
