#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ucp/api/ucp.h>

#include "plugin/core/buffer_pool.h"
#include "plugin/core/node.h"
#include "plugin/core/transport.h"
#include "plugin/core/ucx/descriptors.h"
#include "plugin/core/ucx/doorman.h"
#include "plugin/core/ucx/interfaces.h"
#include "plugin/core/ucx/loop.h"

namespace longhaul {

// UCX active messages over TCP and one interface. Always eager: a rendezvous would cost round trips
// and is refused on arrival. One progress thread owns two workers, one per lane, each with its own
// TCP connection per peer; it blocks in epoll when there is nothing to do.
class UcxTransport final : public Transport, public std::enable_shared_from_this<UcxTransport> {
 public:
  // FailedPrecondition: interface, environment or file descriptors; see ChooseInterface,
  // OpenUcxContext and CheckDescriptors.
  static absl::StatusOr<std::shared_ptr<UcxTransport>> Create(const NodeOptions& options);
  ~UcxTransport() override;

  void Start(std::weak_ptr<TransportSink> sink) override;
  bool Post(Task task) override { return loop_.Post(std::move(task)); }
  bool OnStrand() const override { return thread_id_.load() == std::this_thread::get_id(); }
  void WakeAt(absl::Duration when) override { loop_.WakeAt(when); }
  absl::Status CheckRoom(int new_peers) const override {
    return CheckDescriptors(UcxNodeIs::kThere, new_peers);
  }
  absl::StatusOr<std::unique_ptr<Link>> Connect(std::string_view blob, uint64_t node_id) override;
  std::string address_blob() const override { return address_; }
  std::string description() const override;
  bool needs_heartbeat() const override { return true; }
  uint64_t network_id() const override { return network_id_; }
  std::optional<int64_t> InterfaceSentBytes() const override;
  int64_t refused_messages() const override { return rendezvous_.load(); }
  int64_t silent_connections() const override { return silent_.load(); }
  void Stop() override;

 private:
  friend class UcxLink;
  // One connection of one lane; lives until its close has completed.
  struct Endpoint;
  // A packet inside UCX. What UCX reads is kept here, so that the packet goes back to its sender
  // when the link is cut, however long UCX waits for a network that is out: frames by their owner,
  // values of a tensor by a copy (UCX copies too, but not what finds no room yet).
  struct Sending {
    UcxTransport* owner;
    Endpoint* endpoint;  // nullptr: gone
    OutPacket* packet;   // nullptr: has gone back
    std::array<std::byte, kPacketHeaderBytes> header;
    std::vector<std::byte> copy;
    std::shared_ptr<const void> kept;
  };
  struct Endpoint {
    enum class Flush { kNone, kUnderWay, kDone };
    UcxTransport* owner;
    uint64_t node_id;
    ucp_ep_h handle = nullptr;
    bool lost = false;           // reported by UCX, not yet to the sink
    bool cut = false;            // to be closed by the loop
    Flush flush = Flush::kNone;  // before the close
    bool closing = false;        // the close is under way
    std::vector<Sending*> sending = {};
  };
  struct LaneState {
    UcxTransport* owner = nullptr;
    ucp_worker_h worker = nullptr;
  };

  UcxTransport(const NodeOptions& options, ChosenInterface interface);
  absl::Status Open();
  absl::Status OpenLane(LaneState& lane, std::string& address);
  absl::StatusOr<Endpoint*> OpenEndpoint(LaneState& lane, std::string_view address,
                                         uint64_t node_id);
  LaneState& StateOf(Lane lane) { return lanes_[lane == Lane::kBulk ? 0 : 1]; }

  void Run();
  bool Progress();
  bool ReportAndClose();
  void ShowOutSilent();
  static void Flush(Endpoint& endpoint);
  static void Close(Endpoint& endpoint);
  bool Arm();
  bool Drained() const;

  std::unique_ptr<Sending> NewSending(Endpoint* endpoint, OutPacket* packet);
  void Spare(std::unique_ptr<Sending> sending);
  static void GiveBack(Endpoint& endpoint);

  static ucs_status_t OnMessage(void* lane, const void* header, size_t header_bytes, void* bytes,
                                size_t size, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* sending);
  static void OnFlushed(void* request, ucs_status_t status, void* endpoint);
  static void OnClosed(void* request, ucs_status_t status, void* endpoint);
  static void OnEndpointError(void* endpoint, ucp_ep_h handle, ucs_status_t status);

  const NodeOptions options_;
  const std::string interface_, interface_why_;
  const uint64_t network_id_;
  std::string address_;
  WakeLoop loop_;
  BufferPool pool_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> rendezvous_{0}, silent_{0};
  mutable std::mutex mu_;
  std::string lanes_found_;  // under mu_

  // On the progress thread.
  std::weak_ptr<TransportSink> sink_;
  ucp_context_h context_ = nullptr;
  LaneState lanes_[2];
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  bool attention_ = false;  // some endpoint is lost or cut
  int64_t pending_sends_ = 0;
  std::vector<std::unique_ptr<Sending>> spare_;
  Doorman doorman_;
  absl::Duration next_look_ = absl::ZeroDuration();  // at the doors
};

}  // namespace longhaul
