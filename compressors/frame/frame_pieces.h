#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "compressors/frame/frame.h"

// Frames that are made, sent and read piece by piece, so that encoding, the wire and decoding
// overlap. The bytes are those of Codec::Encode; only the order in which they become final is
// another one, the *stream order*: of each piece its scales, zero points and codes, then the next
// piece's; the header, which has the checksum of everything, last. The order depends on codec,
// shape and dtype alone, so both ends know it.
namespace longhaul {

// Bytes [begin, end) of a frame.
struct FramePart {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// How the frame of one shape falls into pieces. Const methods may run concurrently; it must not
// outlive the codec that made it.
class FramePieces {
 public:
  // Elements of a piece, or the nearest number of whole blocks or rows: of the order of one packet.
  static constexpr size_t kElements = size_t{256} << 10;
  static constexpr size_t kSections = 3;
  // Of each section of the payload, in their order; a section that is not there has empty parts.
  // The parts of a section follow each other without a gap.
  using Parts = std::array<FramePart, kSections>;

  virtual ~FramePieces() = default;
  virtual size_t frame_bytes() const = 0;
  virtual size_t count() const = 0;
  virtual Parts PartsOf(size_t piece) const = 0;
  // All of the header but the payload's length and checksum.
  virtual FrameHeader header() const = 0;

  // Fills the parts of that piece. Errors as Codec::Encode.
  virtual absl::Status Encode(size_t piece, ConstTensor x, std::byte* frame) const = 0;
  // Fills the piece's elements of x. DataLoss: its parts hold what no encoder writes.
  virtual absl::Status Decode(size_t piece, const std::byte* frame, Tensor x) const = 0;
  // Errors as Codec::Decode for what the header tells, its checksum excepted; InvalidArgument: a
  // frame that is not decoded in pieces.
  virtual absl::Status CheckHeader(std::span<const std::byte> frame) const = 0;
};

std::vector<FramePart> StreamOrder(const FramePieces& pieces);

// Makes one frame. Not thread safe.
class PieceWriter {
 public:
  // `frame` has pieces->frame_bytes().
  PieceWriter(std::unique_ptr<FramePieces> pieces, ConstTensor x, std::span<std::byte> frame);
  // Encodes the next piece and answers how many bytes are final now, in stream order: all of the
  // frame's after the last. After an error no more calls.
  absl::StatusOr<size_t> Next();
  const FramePieces& pieces() const { return *pieces_; }

 private:
  const std::unique_ptr<FramePieces> pieces_;
  const ConstTensor x_;
  const std::span<std::byte> frame_;
  size_t next_ = 0, final_ = 0;
  std::array<uint32_t, FramePieces::kSections> sums_ = {};
};

// Reads one frame while it comes in. Not thread safe.
class PieceReader {
 public:
  enum class Order { kStream, kFrame };
  // `frame` is where it gathers; it and x must outlive the reader's use.
  PieceReader(std::unique_ptr<FramePieces> pieces, Order order, std::span<const std::byte> frame,
              Tensor x);
  // The first `bytes` of the frame, in that order, stand in their places: decodes what they allow.
  // With all of them it checks header and checksum too; x is valid when that is OK. Errors as
  // Codec::Decode; after one no more calls.
  absl::Status Reach(size_t bytes);
  // What Reach has been given.
  size_t reached() const { return reached_; }
  size_t frame_bytes() const { return frame_.size(); }

 private:
  const std::unique_ptr<FramePieces> pieces_;
  const Order order_;
  const std::span<const std::byte> frame_;
  const Tensor x_;
  size_t next_ = 0, before_ = 0, reached_ = 0;  // before_: bytes of the pieces that are decoded
  std::array<uint32_t, FramePieces::kSections> sums_ = {};
};

}  // namespace longhaul
