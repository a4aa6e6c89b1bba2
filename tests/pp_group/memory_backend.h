#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace longhaul {

// The post office of one in-memory group; shared by its MemoryBackends.
struct MemoryHub;

// A lossless c10d::Backend between ranks of one process, independent of the project's own: sends
// copy, matching is FIFO per (source, tag), nothing ever blocks but Work::wait (20 s, then an
// error). Thread safe. Used wherever a test needs "some other correct backend".
class MemoryBackend : public c10d::Backend {
 public:
  MemoryBackend(std::shared_ptr<MemoryHub> hub, int rank, int size)
      : c10d::Backend(rank, size), hub_(std::move(hub)) {}

  const std::string getBackendName() const override { return "memory"; }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int dst, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int src, int tag) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;

  // This rank is gone: what waits for it, and every later operation with it, fails as a network
  // error.
  void Die();
  int64_t bytes_sent() const;

 private:
  std::shared_ptr<MemoryHub> hub_;
};

// The `size` ranks of one new group.
std::vector<c10::intrusive_ptr<MemoryBackend>> NewMemoryGroup(int size);

}  // namespace longhaul
