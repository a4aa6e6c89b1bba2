#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "compressors/frame/frame_pieces.h"
#include "compressors/frame_receiver.h"

namespace longhaul {

// Frames longer than this are encoded, sent and decoded in pieces where their codec can.
constexpr size_t kWholeFrameBytes = size_t{256} << 10;

// A frame that is being made.
struct OutFrame {
  std::shared_ptr<const void> owner;  // keeps the bytes
  std::span<const std::byte> bytes;   // of its whole length; what is final is told apart
  std::vector<FramePart> order;       // the order in which it becomes final; empty: as it lies
};

struct EncodeUpdate {
  std::optional<OutFrame> frame;  // in the first update of a job that does not fail
  size_t ready_bytes = 0;         // final, in the frame's order
  bool last = false;              // nothing of the job is used any more
  bool raw = false;               // the last, and only: x goes as it is (EncodeJob::raw_from)
  absl::Status status;            // only the last may fail
  absl::Duration time;            // spent on the job so far
  bool on_device = false;         // a device did it, beside the tensor
};

struct DecodeResult {
  absl::Status status;
  absl::Duration time;
  bool on_device = false;
};

// What a job points to lives until its last update.
struct EncodeJob {
  const Codec* codec;
  ConstTensor x;  // where the coder reads: host memory, or its device's
  void* after;    // of a device: what its work on x comes after (WireTensor::after)
  uint64_t seed;
  CodecState* state;  // nullptr: the codec has none
  // Where set, x goes without a frame if it holds a value of this magnitude or more, NaN and Inf
  // among them, or any other that the codec refuses. Of host memory alone.
  std::optional<float> raw_from;
  // Looks at a frame that is whole and at x, both in host memory, and at the state after it, between
  // the update that gives all of the frame away and the last one; may be empty. For it alone, a coder of a device copies x to the host.
  absl::AnyInvocable<void(std::span<const std::byte> frame, ConstTensor x)> inspect;
  // True: nobody wants the frame any more, and the job may end early with Cancelled. Any thread.
  absl::AnyInvocable<bool() const> abandoned;
  absl::AnyInvocable<void(EncodeUpdate)> update;
};

// One of: a frame of which `reader` decodes what `reach` bytes allow; a frame for `receiver`, which
// keeps what its codec wants between frames; a frame alone; or raw values, for coders of a device.
struct DecodeJob {
  std::span<const std::byte> frame;
  Tensor x;               // where the coder writes
  void* after = nullptr;  // as in EncodeJob
  PieceReader* reader = nullptr;
  size_t reach = 0;
  FrameReceiver* receiver = nullptr;
  enum class Content { kFrame, kRaw } content = Content::kFrame;
  size_t raw_bytes = 0;
  absl::AnyInvocable<void(DecodeResult)> done;
};

// Encodes and decodes beside the strand, in whatever order jobs come to their ends: the order of
// messages, their noise and their states are settled before a job is given (sender.h, delivery.h).
// Callbacks run on a thread of the coder, or inside the call where the coder works inline. Two jobs
// that share a state are never given at the same time. Thread safe.
class Coder {
 public:
  virtual ~Coder() = default;
  virtual void Encode(EncodeJob job) = 0;
  virtual void Decode(DecodeJob job) = 0;
  // Whether a frame of x may come to Decode piece by piece.
  virtual bool reads_pieces() const = 0;
  // Ends what waits with Cancelled, and blocks until no job is at work and no callback runs, those
  // inside their caller's call excepted.
  virtual void Drain() = 0;
};

}  // namespace longhaul
