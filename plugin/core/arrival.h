#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compressors/frame/frame_pieces.h"
#include "plugin/core/group_context.h"
#include "plugin/core/once.h"

namespace longhaul {

// A posted receive. Ended, it only takes its message away; while a coder writes into its tensor,
// its callback waits.
struct Receipt {
  WireTensor x;
  ChannelSpace space;
  int tag;
  uint64_t stamp;  // order of posting
  absl::Duration deadline;
  Once<absl::StatusOr<int>> done;
  bool decoding = false;
  std::optional<absl::StatusOr<int>> ended;  // while decoding: how

  bool open() const { return done && !ended; }
};

// A message on its way in. Before a receive takes it, its packets are held in the transport's
// buffers; afterwards bytes go straight to where they belong: values into the tensor, a codec
// frame's to their places in it.
class Arrival {
 public:
  Arrival(Peer* peer, const PacketHeader& first)
      : peer(peer), rank(first.source_rank), header(first) {}

  // Counts and checks one packet. Sets `failure`, `complete`.
  void Account(const PacketHeader& packet, std::span<const std::byte> payload);
  void Hold(KeptBytes bytes);
  void LetGo();  // of what is held: the peer may send as much again

  // Makes room for the payload, a frame of x (or raw values), whose first bytes are these; with
  // Reading::kInPieces also `reader`, where codec and frame allow it. DataLoss: in stream order,
  // but no frame that has one.
  enum class Reading { kWhole, kInPieces };
  absl::Status MakeRoom(std::span<const std::byte> first, const Tensor& x, Reading reading,
                        BufferPool& pool);
  // Puts `bytes`, which follow what was placed before, where they belong in it.
  void Place(std::span<const std::byte> bytes);
  std::span<const std::byte> frame() const { return frame_.bytes(); }
  size_t placed_bytes() const { return placed_; }

  // CRC32C of the whole payload as it lies in the frame; when complete.
  uint32_t Checksum() const;

  Peer* const peer;
  const int rank;
  const PacketHeader header;  // of its first packet
  uint64_t received_bytes = 0;
  absl::Duration completed_at;  // where a watch is told; else zero
  int64_t packets = 0;
  bool complete = false;
  uint64_t completion = 0;  // order of completion among all sources
  absl::Status failure;     // the rest of the message is taken and thrown away
  std::vector<KeptBytes> held;

  // Once matched (delivery.h).
  std::shared_ptr<Receipt> receipt;
  std::unique_ptr<PieceReader> reader;
  bool decoding = false;  // a coder is at work on it
  bool decoded = false;   // all of it
  absl::Duration decode_time;
  bool on_device = false;

 private:
  uint32_t crc_ = 0;
  size_t held_bytes_ = 0;  // headers included
  PooledBuffer frame_;
  std::vector<FramePart> order_;  // of a streamed frame, and where the next byte goes
  size_t part_ = 0, part_bytes_ = 0;
  size_t placed_ = 0;
};

// Whether a codec frame, or its beginning, is one that a receiver must decode in order.
bool WantsState(std::span<const std::byte> frame);

}  // namespace longhaul
