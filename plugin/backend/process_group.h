#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "plugin/backend/finisher.h"
#include "plugin/backend/process_node.h"
#include "plugin/backend/work.h"
#include "plugin/core/group.h"
#include "plugin/core/node.h"

namespace longhaul {

// The torch.distributed backend "longhaul": a thin adapter from c10d to plugin/core's Group.
// Tensors become (pointer, dtype, shape), Status becomes exceptions (torch_error.h), callbacks
// become Work and Future (work.h). CPU tensors; CUDA tensors are staged through pinned host memory.
// Thread safe.
class ProcessGroupLonghaul : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    Options();
#if LONGHAUL_C10D_OPTIONS_CLONE
    c10::intrusive_ptr<c10d::Backend::Options> clone() const override {
      return c10::make_intrusive<Options>(*this);
    }
#endif
    std::shared_ptr<Node> node;  // nullptr: the process's own ucx node, made at first use
    NodeWishes node_wishes;      // of that node
    CodecPolicy codecs;
    uint64_t seed = 0;
    int nmse_every = 0;  // these as in GroupOptions
    int ef_slots = 1;
  };

  // Exchanges node addresses through `store` (already prefixed for this group) and connects.
  // `options.group_name` names the group; a part that rank 0 draws makes it unique.
  // Throws c10::DistBackendError and kin, never returns half-connected.
  ProcessGroupLonghaul(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                       c10::intrusive_ptr<Options> options);
  ~ProcessGroupLonghaul() override { shutdown(); }

  // Without a store: for ranks that live in one process (loopback). `addresses` by rank;
  // options->node is the rank's own and is required.
  static c10::intrusive_ptr<ProcessGroupLonghaul> FromAddresses(
      int rank, const std::vector<std::string>& addresses, c10::intrusive_ptr<Options> options);

  // Borrowed until shutdown(); DistBackendError after it.
  Group& group() { return *LiveGroup(); }
  Node& node() { return *LiveNode(); }
  // What crossed: until now, or until shutdown().
  std::vector<CrossingCounters> counters() const;
  bool lossless() const { return options_->codecs.lossless(); }  // it opted in to no codec

  // Point to point. One tensor a call; group rank `dst` or `src`, not one's own.
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int dst, int tag) override;
  // The next send that this thread starts on this group also fills `out` (same dtype and sizes, no
  // shared memory: ValueError there) with what the receiver's tensor will hold, bit for bit, until
  // its work is complete. An undefined tensor takes the wish back.
  void decode_next_send(at::Tensor out);
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int src, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;

  // Collectives, in the same order on every rank.
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& opts) override;
  // Splits are rows of the first dim for each rank; none: as many for all.
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs,
                                          std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& opts) override;

  // Of lists, tensors may differ from rank to rank of the parts, the same on every rank.
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& opts) override;
  // Tensors of ranks other than the root stay as they are.
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  // Sums of sparse COO tensors; torch calls it for CUDA tensors, allreduce for those of the host.
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& opts) override;

  // Identity and life.
  const std::string getBackendName() const override { return "longhaul"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;  // a copy
  void setTimeout(std::chrono::milliseconds timeout) override;  // of operations started later
  c10d::ErrorType getError() override;  // the first failure of a peer, a timeout, or SUCCESS
  // Operations fail with Aborted: here and on the other ranks, outstanding and later ones.
  void abort() override;
  // Leaves: outstanding operations of this rank fail with Aborted, what it has sent still arrives.
  // Says on stderr when the group's codecs have encoded nothing (Group::NothingEncoded).
  void shutdown() override;
  void setSequenceNumberForGroup() override {}  // counts from 0 on every rank
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // A group of `ranks` (group ranks of this one), with this one's options unless `opts` has others;
  // nullptr on ranks outside it.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  bool supportsSplitting() const override { return true; }

 private:
  struct Call;  // call.h
  struct Connected {};
  ProcessGroupLonghaul(Connected, int rank, int size, c10::intrusive_ptr<Options> options,
                       const std::vector<std::string>& addresses);
  absl::Status Connect(const std::vector<std::string>& addresses, const std::string& group_name);

  c10::intrusive_ptr<LonghaulWork> NewWork(Call call);
  // A callback that ends `work` and notes failures for getError().
  Group::Done DoneFor(c10::intrusive_ptr<LonghaulWork> work);
  c10::intrusive_ptr<LonghaulWork> AllReduceList(const std::vector<at::Tensor>& tensors,
                                                 const c10d::AllreduceOptions& opts,
                                                 c10d::OpType type, const char* op,
                                                 const char* profiling_title);
  c10::intrusive_ptr<LonghaulWork> AllGatherPairs(const std::vector<Staging>& in,
                                                  const std::vector<Staging>& out,
                                                  const c10d::AllgatherOptions& opts,
                                                  c10d::OpType type, const char* op,
                                                  const char* profiling_title);
  struct Scattered;  // reductions.cc
  Scattered EvenlyScattered(const at::Tensor& input, const at::Tensor& output,
                            const char* op) const;
  c10::intrusive_ptr<LonghaulWork> ReduceScatters(std::vector<Scattered> all,
                                                  const c10d::ReduceScatterOptions& opts,
                                                  c10d::OpType type, const char* op);
  struct Exchange;  // all_to_all.cc
  c10::intrusive_ptr<LonghaulWork> AllToAll(const Exchange& exchange,
                                            const c10d::AllToAllOptions& opts);
  c10::intrusive_ptr<c10d::Work> SendDecoded(std::vector<at::Tensor>& tensors,
                                             const at::Tensor& out, int dst, int tag);
  Staging StagedSend(const at::Tensor& x, int dst, int tag) const;
  Staging StagedReceive(const at::Tensor& x, const char* op) const;
  // One of each rank, appended to `stagings`; the same as wire tensors.
  std::vector<WireTensor> StageOfRanks(const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& own, Access access, const char* op,
                                       std::vector<Staging>& stagings) const;
  int CheckedPeer(int peer, const char* op) const;
  int CheckedRoot(int64_t root, const char* op) const;
  void CheckAlike(const at::Tensor& one, const at::Tensor& other, const char* op) const;
  void CheckTag(int tag, const char* op) const;

  // DistBackendError after shutdown().
  std::shared_ptr<Group> LiveGroup() const;
  std::shared_ptr<Node> LiveNode() const;

  const c10::intrusive_ptr<Options> options_;
  mutable std::mutex mu_;  // of the two pointers and of counters_
  std::shared_ptr<Node> node_;
  std::shared_ptr<Group> group_;            // both null after shutdown()
  std::vector<CrossingCounters> counters_;  // as of shutdown()
  std::string where_;                       // "group 'pp' rank 1"
  const std::shared_ptr<Finisher> finisher_ = std::make_shared<Finisher>();
  // Shared with callbacks, which may outlive this object.
  const std::shared_ptr<std::atomic<c10d::ErrorType>> error_ =
      std::make_shared<std::atomic<c10d::ErrorType>>(c10d::ErrorType::SUCCESS);
  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> collectives_{0};
};

}  // namespace longhaul
