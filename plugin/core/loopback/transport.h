#pragma once

#include <memory>
#include <string>

#include "plugin/core/buffer_pool.h"
#include "plugin/core/clock.h"
#include "plugin/core/loopback/hub.h"
#include "plugin/core/loopback/strand.h"
#include "plugin/core/transport.h"

namespace longhaul {

// Ranks of one process: a packet is delivered inside Send, on the sender's thread, out of the
// sender's memory. Only when the receiving strand is busy on another thread is the payload copied
// and queued. So Send never answers kPending.
class LoopbackTransport final : public Transport,
                                public std::enable_shared_from_this<LoopbackTransport> {
 public:
  // `clock` must outlive the transport.
  static std::shared_ptr<LoopbackTransport> Create(const Clock* clock);
  ~LoopbackTransport() override;

  void Start(std::weak_ptr<TransportSink> sink) override { sink_ = std::move(sink); }
  bool Post(Task task) override { return strand_.Post(std::move(task)); }
  bool OnStrand() const override { return strand_.OnStrand(); }
  void WakeAt(absl::Duration when) override;
  absl::StatusOr<std::unique_ptr<Link>> Connect(std::string_view blob, uint64_t node_id) override;
  std::string address_blob() const override { return key_; }
  std::string description() const override { return "loopback"; }
  bool needs_heartbeat() const override { return false; }
  uint64_t network_id() const override { return 0; }
  std::optional<int64_t> InterfaceSentBytes() const override { return std::nullopt; }
  int64_t refused_messages() const override { return 0; }
  void Stop() override;

  // From a peer's link, on any thread. False once stopped.
  bool Deliver(const OutPacket& packet);
  // The same; false also while somebody is on the strand.
  bool Take(Crossing& crossing);
  // From the hub's thread.
  void OnAlarm();

 private:
  explicit LoopbackTransport(const Clock* clock);

  const Clock* const clock_;
  const std::shared_ptr<LoopbackHub> hub_;
  const std::string key_;
  InlineStrand strand_;
  BufferPool pool_;
  std::weak_ptr<TransportSink> sink_;
  absl::Duration armed_ = absl::InfiniteDuration();  // on the strand
};

}  // namespace longhaul
