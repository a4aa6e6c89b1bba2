#include "plugin/core/ucx/endpoint.h"

#include <utility>

#include "plugin/core/ucx/context.h"
#include "plugin/core/ucx/library.h"

namespace longhaul {

absl::StatusOr<SendState> UcxLink::Send(Lane lane, OutPacket* packet) {
  UcxTransport::Endpoint* const endpoint = lanes_[lane == Lane::kBulk ? 0 : 1];
  if (endpoint == nullptr || endpoint->lost) return absl::UnavailableError("ucx: not connected");
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &UcxTransport::OnSent;
  param.user_data = packet;
  packet->carrier = owner_;
  const ucs_status_ptr_t request = Ucx().ucp_am_send_nbx(
      endpoint->handle, kUcxMessageId, packet->header.data(), packet->header.size(),
      packet->payload.data(), packet->payload.size(), &param);
  if (request == nullptr) return SendState::kDone;
  if (UCS_PTR_IS_ERR(request)) return UcxError("send", UCS_PTR_STATUS(request));
  ++owner_->pending_sends_;
  return SendState::kPending;
}

// The endpoints are closed by the loop, never inside one of UCX's callbacks.
void UcxLink::Cut() {
  for (UcxTransport::Endpoint*& endpoint : lanes_) {
    if (endpoint == nullptr) continue;
    endpoint->cut = true;
    endpoint = nullptr;
    owner_->attention_ = true;
  }
}

}  // namespace longhaul
