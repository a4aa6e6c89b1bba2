#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "plugin/core/group.h"
#include "plugin/core/node.h"

namespace longhaul {

// The torch.distributed backend "longhaul": a thin adapter from c10d to plugin/core's Group.
// Tensors become (pointer, dtype, shape), Status becomes exceptions, callbacks become Work and
// Future. CPU tensors; CUDA tensors are staged through pinned host memory.
class ProcessGroupLonghaul : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    Options();
    std::shared_ptr<Node> node;  // nullptr: the process's own ucx node, made at first use
    NodeOptions node_options{.transport = TransportKind::kUcx};  // of that node
    CodecPolicy codecs;
    uint64_t seed = 0;
    int nmse_every = 0;
  };

  // Exchanges node addresses through `store` (already prefixed for this group) and connects.
  // Throws c10::DistBackendError and kin, never returns half-connected.
  ProcessGroupLonghaul(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                       c10::intrusive_ptr<Options> options);
  ~ProcessGroupLonghaul() override;

  // Without a store: for ranks that live in one process (loopback). `addresses` by rank.
  static c10::intrusive_ptr<ProcessGroupLonghaul> FromAddresses(
      int rank, const std::vector<std::string>& addresses, c10::intrusive_ptr<Options> options);

  Group& group() { return *group_; }

  const std::string getBackendName() const override { return "longhaul"; }

 private:
  std::shared_ptr<Group> group_;
};

}  // namespace longhaul
