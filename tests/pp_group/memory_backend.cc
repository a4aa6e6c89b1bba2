#include "tests/pp_group/memory_backend.h"

#include <set>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace longhaul {
namespace {

class MemoryWork : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds timeout) override {
    return Work::wait(timeout == kNoTimeout ? std::chrono::seconds(20) : timeout);
  }
  void Done() { finish(); }
  void Fail(std::exception_ptr why) { finish(std::move(why)); }
};
using WorkHandle = c10::intrusive_ptr<MemoryWork>;

std::exception_ptr PeerGone(int rank) {
  try {
    TORCH_CHECK_WITH(DistNetworkError, false, "memory backend: rank ", rank, " is gone");
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void Deliver(const at::Tensor& from, at::Tensor to, const WorkHandle& work) {
  try {
    TORCH_CHECK(from.numel() == to.numel() && from.scalar_type() == to.scalar_type(),
                "memory backend: sent ", from.numel(), " of ", from.scalar_type(), ", wanted ",
                to.numel(), " of ", to.scalar_type());
    to.copy_(from.view(to.sizes()));
    work->Done();
  } catch (...) {
    work->Fail(std::current_exception());
  }
}

}  // namespace

struct MemoryHub {
  using Key = std::tuple<int, int, int>;  // source, destination, tag
  struct Receive {
    at::Tensor tensor;
    WorkHandle work;
  };
  struct Gather {
    std::vector<at::Tensor> outputs;
    at::Tensor input;
    WorkHandle work;
  };
  std::mutex mu;
  std::map<Key, std::deque<at::Tensor>> mail;
  std::map<Key, std::deque<Receive>> receives;
  std::map<int64_t, std::map<int, Gather>> gathers;  // by sequence number, then rank
  std::map<int, int64_t> gather_count, bytes;        // by rank
  std::set<int> dead;
};

c10::intrusive_ptr<c10d::Work> MemoryBackend::send(std::vector<at::Tensor>& tensors, int dst,
                                                   int tag) {
  const std::lock_guard lock(hub_->mu);
  auto work = c10::make_intrusive<MemoryWork>();
  if (hub_->dead.count(dst) + hub_->dead.count(rank_) > 0) {
    work->Fail(PeerGone(dst));
    return work;
  }
  const MemoryHub::Key key{rank_, dst, tag};
  hub_->bytes[rank_] += static_cast<int64_t>(tensors[0].nbytes());
  if (auto& waiting = hub_->receives[key]; !waiting.empty()) {
    Deliver(tensors[0], waiting.front().tensor, waiting.front().work);
    waiting.pop_front();
  } else {
    hub_->mail[key].push_back(tensors[0].clone());
  }
  work->Done();
  return work;
}

c10::intrusive_ptr<c10d::Work> MemoryBackend::recv(std::vector<at::Tensor>& tensors, int src,
                                                   int tag) {
  const std::lock_guard lock(hub_->mu);
  auto work = c10::make_intrusive<MemoryWork>();
  const MemoryHub::Key key{src, rank_, tag};
  if (auto& mail = hub_->mail[key]; !mail.empty()) {
    Deliver(mail.front(), tensors[0], work);
    mail.pop_front();
  } else if (hub_->dead.count(src) > 0) {
    work->Fail(PeerGone(src));
  } else {
    hub_->receives[key].push_back({tensors[0], work});
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> MemoryBackend::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions&) {
  const std::lock_guard lock(hub_->mu);
  auto work = c10::make_intrusive<MemoryWork>();
  auto& round = hub_->gathers[hub_->gather_count[rank_]++];
  round[rank_] = {outputs[0], inputs[0].clone(), work};
  if (static_cast<int>(round.size()) < size_) return work;
  for (auto& [rank, gather] : round) {
    for (auto& [from, source] : round) gather.outputs[from].copy_(source.input);
    gather.work->Done();
  }
  return work;
}

void MemoryBackend::Die() {
  const std::lock_guard lock(hub_->mu);
  hub_->dead.insert(rank_);
  for (auto& [key, waiting] : hub_->receives) {
    if (std::get<0>(key) != rank_) continue;
    for (auto& receive : waiting) receive.work->Fail(PeerGone(rank_));
    waiting.clear();
  }
}

int64_t MemoryBackend::bytes_sent() const {
  const std::lock_guard lock(hub_->mu);
  return hub_->bytes[rank_];
}

std::vector<c10::intrusive_ptr<MemoryBackend>> NewMemoryGroup(int size) {
  auto hub = std::make_shared<MemoryHub>();
  std::vector<c10::intrusive_ptr<MemoryBackend>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(c10::make_intrusive<MemoryBackend>(hub, r, size));
  return ranks;
}

}  // namespace longhaul
