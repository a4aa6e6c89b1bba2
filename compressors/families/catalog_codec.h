#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "compressors/codec.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/kernels/kernels.h"

namespace longhaul {

// A codec of the catalogue: what it is called there, and whose kernels it uses.
class CatalogCodec : public Codec {
 public:
  CatalogCodec(std::string_view name, uint16_t id, Isa isa)
      : name_(name), id_(id), isa_(isa), kernels_(KernelsOf(isa)) {}
  std::string_view name() const override { return name_; }
  uint16_t id() const override { return id_; }

 protected:
  // A frame that is sound but not what this codec writes.
  absl::Status Corrupt(std::string_view what) const {
    return absl::DataLossError(name_ + ": " + std::string(what));
  }

  const std::string name_;
  const uint16_t id_;
  const Isa isa_;  // for the codecs that this one makes
  const Kernels& kernels_;
};

}  // namespace longhaul
