// The progress thread of UcxTransport.
#include <algorithm>
#include <utility>

#include "plugin/core/ucx/context.h"
#include "plugin/core/ucx/library.h"
#include "plugin/core/ucx/transport.h"

namespace longhaul {
namespace {

// A peer that no longer reads holds back what was sent to it; after this long the thread ends
// without it.
constexpr absl::Duration kMaxDrainTime = absl::Seconds(2);

// A lane that always has work must not keep the other lane, the tasks and the timers waiting.
constexpr int kBurst = 16;

}  // namespace

void UcxTransport::Start(std::weak_ptr<TransportSink> sink) {
  sink_ = std::move(sink);
  thread_ = std::thread([self = shared_from_this()] {
    self->thread_id_.store(std::this_thread::get_id());
    self->Run();
  });
}

void UcxTransport::Run() {
  absl::Duration give_up = absl::InfiniteDuration();
  for (;;) {
    bool worked = loop_.RunTasks();
    worked |= Progress();
    worked |= ReportAndClose();
    if (loop_.TimerDue()) {
      worked = true;
      if (const std::shared_ptr<TransportSink> sink = sink_.lock()) sink->OnTimer();
      ShowOutSilent();
    }
    if (worked) continue;
    if (stopping_.load()) {
      if (give_up == absl::InfiniteDuration()) {
        loop_.Close();
        give_up = options_.clock->Now() + kMaxDrainTime;
        continue;  // tasks that came before Close()
      }
      if (Drained()) return;
      if (options_.clock->Now() > give_up) {
        for (const auto& endpoint : endpoints_) {
          if (!endpoint->closing) Close(*endpoint);  // ends its sends; no progress after it
        }
        return;
      }
      loop_.WakeAt(give_up + absl::Milliseconds(1));
    }
    if (Arm()) loop_.Sleep();
  }
}

// At heartbeats, as often as they may be. A connection that says nothing is as dead as a peer that
// does.
void UcxTransport::ShowOutSilent() {
  const absl::Duration now = options_.clock->Now();
  if (now < next_look_) return;
  next_look_ = now + std::max(absl::Seconds(1), options_.peer_deadline / 5);
  silent_.fetch_add(doorman_.ShowOut(options_.peer_deadline));
}

bool UcxTransport::Progress() {
  bool any = false;
  for (const LaneState& lane : lanes_) {
    for (int i = 0; i < kBurst && Ucx().ucp_worker_progress(lane.worker) != 0; ++i) any = true;
  }
  return any;
}

// Outside UCX's callbacks: tells the sink of lost connections and closes those that were cut.
bool UcxTransport::ReportAndClose() {
  if (!std::exchange(attention_, false)) return false;
  for (size_t i = 0; i < endpoints_.size(); ++i) {  // the sink may connect more
    Endpoint& endpoint = *endpoints_[i];
    if (endpoint.lost && !endpoint.cut) {
      const std::shared_ptr<TransportSink> sink = sink_.lock();
      if (sink != nullptr) {
        sink->OnLinkLost(endpoint.node_id, absl::UnavailableError("the connection broke"));
      }
      endpoint.cut = true;
    }
    if (endpoint.cut) GiveBack(endpoint);
    if (!endpoint.cut || endpoint.closing) continue;
    if (endpoint.flush == Endpoint::Flush::kNone && !endpoint.lost) Flush(endpoint);
    if (endpoint.flush != Endpoint::Flush::kUnderWay || endpoint.lost) Close(endpoint);
  }
  std::erase_if(endpoints_, [](const auto& e) {
    const bool gone = e->closing && e->handle == nullptr && e->flush != Endpoint::Flush::kUnderWay;
    for (Sending* const sending : e->sending) {
      if (gone) sending->endpoint = nullptr;
    }
    return gone;
  });
  return true;
}

// A connection that works is closed only when nothing of ours is left in it: UCX 1.13.1 crashes
// when, after a forced close, the peer's goodbye arrives together with room to send the rest
// (uct_tcp_iface_handle_events: the first frees what the second uses).
void UcxTransport::Flush(Endpoint& endpoint) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &OnFlushed;
  param.user_data = &endpoint;
  const ucs_status_ptr_t request = Ucx().ucp_ep_flush_nbx(endpoint.handle, &param);
  const bool done = request == nullptr || UCS_PTR_IS_ERR(request);
  endpoint.flush = done ? Endpoint::Flush::kDone : Endpoint::Flush::kUnderWay;
}

void UcxTransport::OnFlushed(void* request, ucs_status_t, void* endpoint) {
  auto* const at = static_cast<Endpoint*>(endpoint);
  Ucx().ucp_request_free(request);
  at->flush = Endpoint::Flush::kDone;
  at->owner->attention_ = true;  // ReportAndClose closes it
}

void UcxTransport::Close(Endpoint& endpoint) {
  endpoint.closing = true;
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = &OnClosed;
  param.user_data = &endpoint;
  const ucs_status_ptr_t request = Ucx().ucp_ep_close_nbx(endpoint.handle, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) endpoint.handle = nullptr;
}

void UcxTransport::OnClosed(void* request, ucs_status_t, void* endpoint) {
  auto* const at = static_cast<Endpoint*>(endpoint);
  Ucx().ucp_request_free(request);
  at->handle = nullptr;
  at->owner->attention_ = true;  // ReportAndClose takes it out
}

bool UcxTransport::Drained() const { return endpoints_.empty() && pending_sends_ == 0; }

bool UcxTransport::Arm() {
  for (const LaneState& lane : lanes_) {
    if (Ucx().ucp_worker_arm(lane.worker) != UCS_OK) return false;  // busy: progress again
  }
  return true;
}

void UcxTransport::Stop() {
  stopping_.store(true);
  loop_.Wake();
  if (!thread_.joinable()) return;
  if (OnStrand()) {
    thread_.detach();  // it holds this transport until it ends
  } else {
    thread_.join();
  }
}

}  // namespace longhaul
