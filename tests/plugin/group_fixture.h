#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/core/group.h"
#include "plugin/core/node.h"

namespace longhaul {

// The result of one asynchronous operation; counts how often its callback ran.
class Outcome {
 public:
  Outcome() : state_(std::make_shared<State>()) {}
  // Waits, a second at most, for what was asked for: until then the tensor, declared before this,
  // is the node's.
  ~Outcome();
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  Group::Done done() const;
  Group::DoneFrom done_from() const;
  absl::Status Wait(absl::Duration limit = absl::Seconds(60)) const;
  bool finished() const { return calls() > 0; }
  int calls() const;
  int source() const;

 private:
  struct State {
    std::mutex mu;
    std::condition_variable changed;
    bool asked = false;
    int calls = 0;
    int source = -2;
    absl::Status status;
  };
  std::shared_ptr<State> state_;
};

// `size` nodes of this process over one transport, and groups among them.
class Cluster {
 public:
  Cluster(TransportKind kind, int size, std::function<void(NodeOptions&)> adjust = {});
  ~Cluster();

  // One group over all nodes; `adjust` sees each rank's options.
  std::vector<std::shared_ptr<Group>> MakeGroup(
      const std::string& name, std::function<void(GroupOptions&)> adjust = {}) const;

  std::vector<std::string> addresses() const;
  std::vector<std::shared_ptr<Node>> nodes;
};

NodeOptions OptionsFor(TransportKind kind);

template <typename T>
WireTensor Tensor1D(std::vector<T>& values, ElementType type) {
  return {.values = values.data(), .type = type, .dims = {static_cast<int64_t>(values.size())}};
}
inline WireTensor F32(std::vector<float>& values) { return Tensor1D(values, ElementType::kF32); }

// `ranks` tensors of equal length that lie end to end in `values`.
template <typename T>
std::vector<WireTensor> PartsOf(std::vector<T>& values, size_t ranks, ElementType type) {
  std::vector<WireTensor> parts;
  for (size_t r = 0; r < ranks; ++r) {
    const size_t count = values.size() / ranks;
    parts.push_back(
        {.values = values.data() + r * count, .type = type, .dims = {static_cast<int64_t>(count)}});
  }
  return parts;
}
inline std::vector<WireTensor> F32Parts(std::vector<float>& values, size_t ranks) {
  return PartsOf(values, ranks, ElementType::kF32);
}

// The same values on every platform.
std::vector<float> Noise(size_t count, uint64_t seed);

}  // namespace longhaul
