#include "plugin/core/ucx/transport.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/ucx/context.h"
#include "plugin/core/ucx/endpoint.h"
#include "plugin/core/ucx/library.h"

namespace longhaul {
namespace {

// What UCX hands to the receive callback.
class UcxPayload final : public ArrivedPayload {
 public:
  enum class Lifetime { kCall, kUntilReleased };
  UcxPayload(ucp_worker_h worker, void* start, size_t size, Lifetime lifetime, BufferPool& pool)
      : worker_(worker), start_(start), size_(size), lifetime_(lifetime), pool_(pool) {}

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(start_), size_};
  }
  KeptBytes Keep() override {
    if (lifetime_ == Lifetime::kUntilReleased) {
      kept_ = true;
      return KeptBytes(
          bytes(),
          [](void* w, void* p) { Ucx().ucp_am_data_release(static_cast<ucp_worker_h>(w), p); },
          worker_, start_);
    }
    auto copy = std::make_unique<PooledBuffer>(pool_.Acquire(size_));
    if (size_ > 0) std::memcpy(copy->bytes().data(), start_, size_);
    const std::span<const std::byte> bytes = copy->bytes();
    return KeptBytes(
        bytes, [](void*, void* p) { delete static_cast<PooledBuffer*>(p); }, nullptr,
        copy.release());
  }
  bool kept() const { return kept_; }

 private:
  const ucp_worker_h worker_;
  void* const start_;
  const size_t size_;
  const Lifetime lifetime_;
  BufferPool& pool_;
  bool kept_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<UcxTransport>> UcxTransport::Create(const NodeOptions& options) {
  // First: to look at interfaces takes descriptors too.
  if (absl::Status s = CheckDescriptors(UcxNodeIs::kToBeMade, options.expected_peers); !s.ok()) {
    return s;
  }
  absl::StatusOr<ChosenInterface> interface = ChooseInterface(options.interface);
  if (!interface.ok()) return interface.status();
  if (!options.interface_why.empty()) interface->why = options.interface_why;
  std::shared_ptr<UcxTransport> transport(new UcxTransport(options, *std::move(interface)));
  RETURN_IF_ERROR(transport->Open());
  return transport;
}

UcxTransport::UcxTransport(const NodeOptions& options, ChosenInterface interface)
    : options_(options),
      interface_(std::move(interface.name)),
      interface_why_(std::move(interface.why)),
      network_id_(NetworkNamespaceId()),
      loop_(options.clock) {}

UcxTransport::~UcxTransport() {
  for (const LaneState& lane : lanes_) {
    if (lane.worker != nullptr) Ucx().ucp_worker_destroy(lane.worker);
  }
  if (context_ != nullptr) Ucx().ucp_cleanup(context_);
  // What UCX has not given back it never will.
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) {
    for (Sending* const sending : endpoint->sending) delete sending;
  }
}

absl::Status UcxTransport::Open() {
  ASSIGN_OR_RETURN(const ucp_context_h context, OpenUcxContext(options_, interface_));
  context_ = context;
  std::string bulk, control;
  RETURN_IF_ERROR(OpenLane(StateOf(Lane::kBulk), bulk));
  RETURN_IF_ERROR(OpenLane(StateOf(Lane::kControl), control));
  const auto bulk_bytes = static_cast<uint32_t>(bulk.size());
  address_.assign(reinterpret_cast<const char*>(&bulk_bytes), sizeof(bulk_bytes));
  address_ += bulk + control;
  return absl::OkStatus();
}

absl::Status UcxTransport::OpenLane(LaneState& lane, std::string& address) {
  lane.owner = this;
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  doorman_.BeforeWorker();
  if (ucs_status_t s = Ucx().ucp_worker_create(context_, &params, &lane.worker); s != UCS_OK) {
    return UcxError(fmt::format("worker on {}", interface_), s);
  }
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (ucs_status_t s = Ucx().ucp_worker_query(lane.worker, &attributes); s != UCS_OK) {
    return UcxError("query worker", s);
  }
  if (attributes.max_am_header < kPacketHeaderBytes) {
    return absl::FailedPreconditionError(fmt::format("ucx: headers of at most {} bytes, need {}",
                                                     attributes.max_am_header, kPacketHeaderBytes));
  }
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessageId;
  handler.cb = &OnMessage;
  handler.arg = &lane;
  if (ucs_status_t s = Ucx().ucp_worker_set_am_recv_handler(lane.worker, &handler); s != UCS_OK) {
    return UcxError("set receive callback", s);
  }
  int fd = -1;
  if (ucs_status_t s = Ucx().ucp_worker_get_efd(lane.worker, &fd); s != UCS_OK) {
    return UcxError("wake-up descriptor", s);
  }
  RETURN_IF_ERROR(loop_.Watch(fd));
  ucp_address_t* bytes = nullptr;
  size_t size = 0;
  if (ucs_status_t s = Ucx().ucp_worker_get_address(lane.worker, &bytes, &size); s != UCS_OK) {
    return UcxError("worker address", s);
  }
  address.assign(reinterpret_cast<const char*>(bytes), size);
  doorman_.AfterWorker(address);
  Ucx().ucp_worker_release_address(lane.worker, bytes);
  return absl::OkStatus();
}

absl::StatusOr<UcxTransport::Endpoint*> UcxTransport::OpenEndpoint(LaneState& lane,
                                                                   std::string_view address,
                                                                   uint64_t node_id) {
  auto endpoint = std::make_unique<Endpoint>(Endpoint{.owner = this, .node_id = node_id});
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnEndpointError;
  params.err_handler.arg = endpoint.get();
  if (ucs_status_t s = Ucx().ucp_ep_create(lane.worker, &params, &endpoint->handle); s != UCS_OK) {
    return UcxError("connect", s);
  }
  endpoints_.push_back(std::move(endpoint));
  return endpoints_.back().get();
}

absl::StatusOr<std::unique_ptr<Link>> UcxTransport::Connect(std::string_view blob,
                                                            uint64_t node_id) {
  uint32_t bulk_bytes = 0;
  if (blob.size() < sizeof(bulk_bytes)) return absl::InvalidArgumentError("ucx: short address");
  std::memcpy(&bulk_bytes, blob.data(), sizeof(bulk_bytes));
  blob.remove_prefix(sizeof(bulk_bytes));
  if (bulk_bytes >= blob.size()) return absl::InvalidArgumentError("ucx: bad address");
  ASSIGN_OR_RETURN(Endpoint* const bulk,
                   OpenEndpoint(StateOf(Lane::kBulk), blob.substr(0, bulk_bytes), node_id));
  const absl::StatusOr<Endpoint*> control =
      OpenEndpoint(StateOf(Lane::kControl), blob.substr(bulk_bytes), node_id);
  if (!control.ok()) {
    bulk->cut = attention_ = true;
    return control.status();
  }
  auto link = std::make_unique<UcxLink>(this, bulk, *control);
  for (const Endpoint* endpoint : {bulk, *control}) {
    ASSIGN_OR_RETURN(const std::string lanes, CheckLanes(endpoint->handle, options_, interface_));
    const std::lock_guard lock(mu_);
    lanes_found_ = lanes;
  }
  return link;
}

std::string UcxTransport::description() const {
  const std::lock_guard lock(mu_);
  return fmt::format("ucx {} ({})", lanes_found_.empty() ? "tcp/" + interface_ : lanes_found_,
                     interface_why_);
}

std::optional<int64_t> UcxTransport::InterfaceSentBytes() const {
  const absl::StatusOr<int64_t> bytes = InterfaceTxBytes(interface_);
  return bytes.ok() ? std::optional<int64_t>(*bytes) : std::nullopt;
}

ucs_status_t UcxTransport::OnMessage(void* lane, const void* header, size_t header_bytes,
                                     void* bytes, size_t size, const ucp_am_recv_param_t* param) {
  const LaneState& state = *static_cast<LaneState*>(lane);
  UcxTransport& self = *state.owner;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self.rendezvous_.fetch_add(1);
    return UCS_OK;  // not fetched: UCX drops it
  }
  const std::shared_ptr<TransportSink> sink = self.sink_.lock();
  if (sink == nullptr) return UCS_OK;
  UcxPayload payload(state.worker, bytes, size,
                     (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0
                         ? UcxPayload::Lifetime::kUntilReleased
                         : UcxPayload::Lifetime::kCall,
                     self.pool_);
  sink->OnPacket({static_cast<const std::byte*>(header), header_bytes}, payload);
  return payload.kept() ? UCS_INPROGRESS : UCS_OK;
}

std::unique_ptr<UcxTransport::Sending> UcxTransport::NewSending(Endpoint* endpoint,
                                                                OutPacket* packet) {
  std::unique_ptr<Sending> sending;
  if (spare_.empty()) {
    sending = std::make_unique<Sending>();
  } else {
    sending = std::move(spare_.back());
    spare_.pop_back();
  }
  sending->owner = this;
  sending->endpoint = endpoint;
  sending->packet = packet;
  sending->header = packet->header;
  sending->kept = packet->owner;
  if (packet->owner == nullptr) {
    sending->copy.assign(packet->payload.begin(), packet->payload.end());
  }
  return sending;
}

void UcxTransport::Spare(std::unique_ptr<Sending> sending) {
  sending->kept.reset();
  spare_.push_back(std::move(sending));
}

void UcxTransport::OnSent(void* request, ucs_status_t status, void* sending) {
  std::unique_ptr<Sending> sent(static_cast<Sending*>(sending));
  UcxTransport& self = *sent->owner;
  Ucx().ucp_request_free(request);
  --self.pending_sends_;
  if (sent->endpoint != nullptr) std::erase(sent->endpoint->sending, sent.get());
  OutPacket* const packet = sent->packet;
  self.Spare(std::move(sent));
  if (packet == nullptr) return;
  packet->done(packet, status == UCS_OK ? absl::OkStatus() : UcxError("send", status));
}

// What UCX still holds of a link that was cut.
void UcxTransport::GiveBack(Endpoint& endpoint) {
  for (size_t i = 0; i < endpoint.sending.size(); ++i) {
    OutPacket* const packet = std::exchange(endpoint.sending[i]->packet, nullptr);
    if (packet != nullptr) packet->done(packet, absl::UnavailableError("the link was cut"));
  }
}

void UcxTransport::OnEndpointError(void* endpoint, ucp_ep_h, ucs_status_t) {
  auto* const at = static_cast<Endpoint*>(endpoint);
  at->lost = true;
  at->owner->attention_ = true;
}

}  // namespace longhaul
