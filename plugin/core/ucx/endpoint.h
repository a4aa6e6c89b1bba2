#pragma once

#include "plugin/core/ucx/transport.h"

namespace longhaul {

// Both lanes to one peer. Progress thread only.
class UcxLink final : public Link {
 public:
  UcxLink(UcxTransport* owner, UcxTransport::Endpoint* bulk, UcxTransport::Endpoint* control)
      : owner_(owner), lanes_{bulk, control} {}
  ~UcxLink() override;

  absl::StatusOr<SendState> Send(Lane lane, OutPacket* packet) override;
  void Cut() override;

 private:
  UcxTransport* const owner_;
  UcxTransport::Endpoint* lanes_[2];  // nullptr after Cut()
};

}  // namespace longhaul
