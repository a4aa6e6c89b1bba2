#pragma once

#include <memory>

#include "plugin/core/buffer_pool.h"
#include "plugin/core/clock.h"
#include "plugin/core/coder.h"
#include "plugin/core/step_threads.h"

namespace longhaul {

// Coder of host memory. Its threads start with the first job that is worth one and sleep when there
// is none; a step of one job (a piece, or a whole frame) alternates with those of others, so that
// one thread, too, encodes and decodes at once. Short tensors are done inside the call.
class HostCoder final : public Coder {
 public:
  // threads: 0 does everything inside the call. Shares the buffers of `pool`; `clock` must outlive
  // the coder and its jobs.
  HostCoder(int threads, BufferPool pool, const Clock* clock);

  void Encode(EncodeJob job) override;
  void Decode(DecodeJob job) override;
  bool reads_pieces() const override { return true; }
  void Drain() override { threads_.Drain(); }

  // Elements of a tensor below which handing it over costs more than it saves.
  static constexpr size_t kWorthHandingOver = size_t{32} << 10;

 private:
  void Do(size_t elements, StepThreads::Step step, StepThreads::Refuse refuse);

  BufferPool pool_;
  const Clock* const clock_;
  StepThreads threads_;
};

}  // namespace longhaul
