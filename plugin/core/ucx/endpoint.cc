#include "plugin/core/ucx/endpoint.h"

#include <utility>

#include "plugin/core/ucx/context.h"
#include "plugin/core/ucx/library.h"

namespace longhaul {

// Who sent what is still inside UCX may be gone too.
UcxLink::~UcxLink() {
  for (UcxTransport::Endpoint* const endpoint : lanes_) {
    if (endpoint == nullptr) continue;
    for (UcxTransport::Sending* const sending : endpoint->sending) sending->packet = nullptr;
  }
  Cut();
}

absl::StatusOr<SendState> UcxLink::Send(Lane lane, OutPacket* packet) {
  UcxTransport::Endpoint* const endpoint = lanes_[lane == Lane::kBulk ? 0 : 1];
  if (endpoint == nullptr || endpoint->lost) return absl::UnavailableError("ucx: not connected");
  std::unique_ptr<UcxTransport::Sending> sending = owner_->NewSending(endpoint, packet);
  const void* const payload = sending->kept ? packet->payload.data() : sending->copy.data();
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &UcxTransport::OnSent;
  param.user_data = sending.get();
  const ucs_status_ptr_t request =
      Ucx().ucp_am_send_nbx(endpoint->handle, kUcxMessageId, sending->header.data(),
                            sending->header.size(), payload, packet->payload.size(), &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    owner_->Spare(std::move(sending));
    if (request == nullptr) return SendState::kDone;
    return UcxError("send", UCS_PTR_STATUS(request));
  }
  endpoint->sending.push_back(sending.release());  // UCX's until OnSent
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
