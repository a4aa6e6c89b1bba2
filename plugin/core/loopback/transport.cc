#include "plugin/core/loopback/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

// Made into KeptBytes by moving the buffer to the heap; freed by whoever kept it.
KeptBytes KeepBuffer(PooledBuffer buffer) {
  auto* owned = new PooledBuffer(std::move(buffer));
  return KeptBytes(
      owned->bytes(), [](void*, void* cookie) { delete static_cast<PooledBuffer*>(cookie); },
      nullptr, owned);
}

PooledBuffer Copy(std::span<const std::byte> bytes, BufferPool& pool) {
  PooledBuffer copy = pool.Acquire(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.bytes().data(), bytes.data(), bytes.size());
  return copy;
}

// Lies in the sender's memory: keeping it costs the one copy.
class BorrowedPayload final : public ArrivedPayload {
 public:
  BorrowedPayload(std::span<const std::byte> bytes, BufferPool& pool)
      : bytes_(bytes), pool_(pool) {}
  std::span<const std::byte> bytes() const override { return bytes_; }
  KeptBytes Keep() override { return KeepBuffer(Copy(bytes_, pool_)); }

 private:
  const std::span<const std::byte> bytes_;
  BufferPool& pool_;
};

// Waited in the queue of a busy strand, already copied.
class QueuedPayload final : public ArrivedPayload {
 public:
  explicit QueuedPayload(PooledBuffer buffer) : buffer_(std::move(buffer)) {}
  std::span<const std::byte> bytes() const override { return buffer_.bytes(); }
  KeptBytes Keep() override { return KeepBuffer(std::move(buffer_)); }

 private:
  PooledBuffer buffer_;
};

class LoopbackLink final : public Link {
 public:
  LoopbackLink(std::weak_ptr<LoopbackTransport> peer, std::string key)
      : peer_(std::move(peer)), key_(std::move(key)) {}
  absl::StatusOr<SendState> Send(Lane, OutPacket* packet) override {
    const std::shared_ptr<LoopbackTransport> peer = peer_.lock();
    if (peer == nullptr || !peer->Deliver(*packet)) {
      return absl::UnavailableError(fmt::format("{} is gone", key_));
    }
    return SendState::kDone;
  }
  bool Cross(Crossing& crossing) override {
    const std::shared_ptr<LoopbackTransport> peer = peer_.lock();
    return peer != nullptr && peer->Take(crossing);
  }
  void Cut() override { peer_.reset(); }

 private:
  std::weak_ptr<LoopbackTransport> peer_;
  const std::string key_;
};

}  // namespace

std::shared_ptr<LoopbackTransport> LoopbackTransport::Create(const Clock* clock) {
  std::shared_ptr<LoopbackTransport> transport(new LoopbackTransport(clock));
  transport->hub_->Add(transport->key_, transport);
  return transport;
}

LoopbackTransport::LoopbackTransport(const Clock* clock)
    : clock_(clock), hub_(LoopbackHub::OfThisProcess()), key_(hub_->NewKey()) {}

LoopbackTransport::~LoopbackTransport() { hub_->Remove(key_); }

void LoopbackTransport::WakeAt(absl::Duration when) {
  if (when >= armed_) return;
  armed_ = when;
  hub_->SetAlarm(std::max(absl::ZeroDuration(), when - clock_->Now()), weak_from_this());
}

void LoopbackTransport::OnAlarm() {
  strand_.Post([this, self = shared_from_this()] {
    armed_ = absl::InfiniteDuration();
    if (const std::shared_ptr<TransportSink> sink = sink_.lock()) sink->OnTimer();
  });
}

absl::StatusOr<std::unique_ptr<Link>> LoopbackTransport::Connect(std::string_view blob, uint64_t) {
  const std::shared_ptr<LoopbackTransport> peer = hub_->Find(blob);
  if (peer == nullptr) {
    return absl::UnavailableError(fmt::format("no node '{}' in this process", blob));
  }
  return std::make_unique<LoopbackLink>(peer, std::string(blob));
}

bool LoopbackTransport::Deliver(const OutPacket& packet) {
  return strand_.RunOr(
      [&] {
        BorrowedPayload payload(packet.payload, pool_);
        if (const auto sink = sink_.lock()) sink->OnPacket(packet.header, payload);
      },
      [&]() -> Task {
        return [this, self = shared_from_this(), header = packet.header,
                payload = QueuedPayload(Copy(packet.payload, pool_))]() mutable {
          if (const auto sink = sink_.lock()) sink->OnPacket(header, payload);
        };
      });
}

bool LoopbackTransport::Take(Crossing& crossing) {
  bool taken = false;
  strand_.TryRun([&] {
    if (const auto sink = sink_.lock()) taken = sink->OnCrossing(crossing);
  });
  return taken;
}

void LoopbackTransport::Stop() {
  hub_->Remove(key_);
  strand_.Stop();
}

}  // namespace longhaul
