#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/core/loopback/transport.h"
#include "tests/plugin/group_fixture.h"

namespace longhaul {

// Time that moves when the test says so.
class ManualClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::Nanoseconds(nanoseconds_.load()); }
  void Advance(absl::Duration by) { nanoseconds_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> nanoseconds_{1'000'000'000};
};

// The loopback transport with a link that loses or damages what the test chooses, heartbeats if
// wanted, and timers that run when the test calls Tick().
class RiggedTransport final : public Transport {
 public:
  enum class Heartbeat { kOff, kOn };
  // What becomes of a packet on its way out: `header` as the receiver would parse it, `payload` a
  // copy that may be changed. False: it is lost.
  using OnPacket = std::function<bool(const PacketHeader& header, std::span<std::byte> payload)>;

  RiggedTransport(const Clock* clock, Heartbeat heartbeat)
      : inner_(LoopbackTransport::Create(clock)), heartbeat_(heartbeat) {}

  void Start(std::weak_ptr<TransportSink> sink) override;
  bool Post(Task task) override { return inner_->Post(std::move(task)); }
  bool OnStrand() const override { return inner_->OnStrand(); }
  void WakeAt(absl::Duration) override {}
  absl::StatusOr<std::unique_ptr<Link>> Connect(std::string_view blob, uint64_t node_id) override;
  std::string address_blob() const override { return inner_->address_blob(); }
  std::string description() const override { return "rigged " + inner_->description(); }
  bool needs_heartbeat() const override { return heartbeat_ == Heartbeat::kOn; }
  uint64_t network_id() const override { return inner_->network_id(); }
  std::optional<int64_t> InterfaceSentBytes() const override { return std::nullopt; }
  int64_t refused_messages() const override { return 0; }
  void Stop() override { inner_->Stop(); }

  void Tick();
  OnPacket on_packet;  // empty: everything passes as it is
  // Packets for which it answers true wait, in their order, until LetHeldGo(): others pass them.
  // Empty: none does. Not together with on_packet.
  std::function<bool(const PacketHeader& header)> hold;
  void LetHeldGo();

 private:
  const std::shared_ptr<LoopbackTransport> inner_;
  const Heartbeat heartbeat_;
  std::weak_ptr<TransportSink> sink_;
  struct Held {
    Link* link;
    std::array<std::byte, kPacketHeaderBytes> header;
    std::vector<std::byte> payload;
  };
  std::vector<Held> held_;  // on the strand
  friend class RiggedLink;
};

// Nodes of this process over rigged transports and one manual clock.
class RiggedCluster : public Cluster {
 public:
  explicit RiggedCluster(int size,
                         RiggedTransport::Heartbeat heartbeat = RiggedTransport::Heartbeat::kOff,
                         std::function<void(NodeOptions&)> adjust = {});
  ~RiggedCluster();

  void Tick();                              // every node's timers
  void Pass(absl::Duration by, int steps);  // so much time in so many ticks

  ManualClock clock;
  std::vector<std::shared_ptr<RiggedTransport>> wires;
};

}  // namespace longhaul
