#include "tests/plugin/rigged_transport.h"

#include <utility>

#include "plugin/core/node_core.h"

namespace longhaul {

class RiggedLink final : public Link {
 public:
  RiggedLink(RiggedTransport* rig, std::unique_ptr<Link> inner)
      : rig_(rig), inner_(std::move(inner)) {}

  absl::StatusOr<SendState> Send(Lane lane, OutPacket* packet) override {
    if (rig_->hold && rig_->hold(ParsePacket(packet->header, packet->payload).value())) {
      rig_->held_.push_back(
          {inner_.get(), packet->header, {packet->payload.begin(), packet->payload.end()}});
      return SendState::kDone;
    }
    if (!rig_->on_packet) return inner_->Send(lane, packet);
    std::vector<std::byte> copy(packet->payload.begin(), packet->payload.end());
    if (!rig_->on_packet(ParsePacket(packet->header, packet->payload).value(), copy)) {
      return SendState::kDone;
    }
    OutPacket changed;
    changed.header = packet->header;
    changed.payload = copy;
    return inner_->Send(lane, &changed);  // loopback is done with it when it returns
  }
  void Cut() override { inner_->Cut(); }

 private:
  RiggedTransport* const rig_;
  const std::unique_ptr<Link> inner_;
};

void RiggedTransport::LetHeldGo() {
  Post([this] {
    hold = nullptr;
    for (const Held& held : std::exchange(held_, {})) {
      OutPacket packet;
      packet.header = held.header;
      packet.payload = held.payload;
      (void)held.link->Send(Lane::kBulk, &packet);  // loopback is done with it when it returns
    }
  });
}

void RiggedTransport::Start(std::weak_ptr<TransportSink> sink) {
  sink_ = sink;
  inner_->Start(std::move(sink));
}

absl::StatusOr<std::unique_ptr<Link>> RiggedTransport::Connect(std::string_view blob,
                                                               uint64_t node_id) {
  absl::StatusOr<std::unique_ptr<Link>> link = inner_->Connect(blob, node_id);
  if (!link.ok()) return link.status();
  return std::make_unique<RiggedLink>(this, *std::move(link));
}

void RiggedTransport::Tick() {
  Post([sink = sink_] {
    if (const std::shared_ptr<TransportSink> alive = sink.lock()) alive->OnTimer();
  });
}

RiggedCluster::RiggedCluster(int size, RiggedTransport::Heartbeat heartbeat,
                             std::function<void(NodeOptions&)> adjust)
    : Cluster(TransportKind::kLoopback, 0) {
  for (int rank = 0; rank < size; ++rank) {
    NodeOptions options = OptionsFor(TransportKind::kLoopback);
    options.clock = &clock;
    if (adjust) adjust(options);
    wires.push_back(std::make_shared<RiggedTransport>(&clock, heartbeat));
    auto core = std::make_shared<NodeCore>(options, TransportKind::kLoopback, wires.back());
    core->Start();
    nodes.emplace_back(core.get(), [core](Node*) {
      core->Shutdown(NodeCore::End::kClean, absl::AbortedError("the node was closed"));
    });
  }
}

RiggedCluster::~RiggedCluster() {
  for (const auto& wire : wires) wire->on_packet = nullptr;  // goodbyes arrive
  nodes.clear();                                             // before the clock
}

void RiggedCluster::Tick() {
  for (const auto& wire : wires) wire->Tick();
}

void RiggedCluster::Pass(absl::Duration by, int steps) {
  for (int step = 0; step < steps; ++step) {
    clock.Advance(by / steps);
    Tick();
  }
}

}  // namespace longhaul
