#pragma once

#include <span>
#include <vector>

#include "compressors/codec.h"

namespace longhaul {

// The state of codecs that send differences: the tensor as the receiver has it, which both ends
// hold, bit for bit alike. A frame with a difference carries the tag of the mirror that it is to be
// added to, so a receiver that has missed a frame, or kept one too many, refuses what follows; a
// sender whose mirror is empty (new, or after Reset) sends values that fill the receiver's anew,
// whatever it held. Saved: rows, cols (u64), kind, filled (u32), the values.
class Mirror final : public CodecState {
 public:
  enum class Kind : uint32_t {
    kF32 = 0,  // +ef21
    kF16 = 1,  // aqsgd*
  };
  Mirror(Kind kind, Shape shape);

  Shape shape() const override { return shape_; }
  void Reset() override;  // empty: all zero
  size_t bytes() const override { return kHeaderBytes + values_.size(); }
  void Save(std::span<std::byte> out) const override;
  absl::Status Load(std::span<const std::byte> in) override;

  Kind kind() const { return kind_; }
  DType dtype() const { return kind_ == Kind::kF32 ? DType::kF32 : DType::kF16; }
  bool filled() const { return filled_; }
  // CRC32C of the values.
  uint32_t Tag() const;
  const std::byte* values() const { return values_.data(); }
  // Takes over new values: [elements] of dtype().
  void Fill(const void* values);

  // What Save wrote, of whatever kind and shape; DataLoss when it is not. Takes no memory beyond
  // what `in` is long.
  static absl::StatusOr<Mirror> Restore(std::span<const std::byte> in);

 private:
  static constexpr size_t kHeaderBytes = 8 + 8 + 4 + 4;

  Kind kind_;
  Shape shape_;
  bool filled_ = false;
  std::vector<std::byte> values_;
};

// `state` as a mirror of that kind and shape, InvalidArgument when it is something else; nullptr
// when state is nullptr.
absl::StatusOr<Mirror*> MirrorOf(CodecState* state, std::string_view codec, Mirror::Kind kind,
                                 Shape shape);

// Whether a frame with these flags and tag may be decoded onto `mirror` (nullptr: the caller keeps
// none, good for first visits only).
absl::Status CheckMirror(std::string_view codec, uint16_t flags, uint32_t tag,
                         const Mirror* mirror);

}  // namespace longhaul
