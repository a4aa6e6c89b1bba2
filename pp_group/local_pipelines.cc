#include "pp_group/local_pipelines.h"

#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

// run(0), run(1), ... run(count - 1) at once, for groups whose ranks wait for each other in the
// midst of a stage: each on a thread of its own that computes as the calling one does. When one
// throws, `stop` is called with its number, which makes the others end that wait for it; then that
// exception is thrown here. Returns when all have ended.
void RunAtOnce(int count, const std::function<void(int)>& run,
               const std::function<void(int)>& stop) {
  std::mutex mu;
  std::exception_ptr first;  // under mu
  const at::ThreadLocalState caller;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const at::ThreadLocalStateGuard as_caller(caller);
      at::init_num_threads();
      try {
        run(i);
      } catch (...) {
        const std::lock_guard lock(mu);
        if (first != nullptr) return;
        first = std::current_exception();
        stop(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

using Ranks = std::span<const std::unique_ptr<RankState>>;

void RunActions(const Program& order, const std::function<void(const Action&)>& on_action,
                const Ranks& ranks, const RankState** busy) {
  for (const Action& action : order) {
    for (const auto& state : ranks) {
      if (state->rank.stage != action.stage) continue;
      *busy = state.get();
      if (on_action) on_action(action);
      if (state->past != nullptr) state->past->Take(action.microbatch);
      state->pipeline->Run(action);
    }
  }
}

// With several threads a refused send may be known after the receive that misses it: the sender's
// reason is the one to tell.
void ThrowIfSendDiverged(const Ranks& ranks, const RankState** busy) {
  const RankState* const before = *busy;
  for (const auto& state : ranks) {
    try {
      *busy = state.get();
      state->pipeline->FinishSends();
    } catch (const Diverged&) {
      throw;
    } catch (...) {  // no better reason than the one that was seen
    }
  }
  *busy = before;
}

}  // namespace

std::vector<LocalPipelines::Group> LocalPipelines::Groups() const {
  std::vector<Group> groups;
  const Group all(ranks_);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end]->rank.group == all[begin]->rank.group) ++end;
    groups.push_back(all.subspan(begin, end - begin));
  }
  return groups;
}

void LocalPipelines::InParallel(const std::vector<Group>& groups,
                                const std::function<void(const Group&, const RankState**)>& run) {
  std::vector<const RankState*> busy(groups.size(), nullptr);
  RunAtOnce(
      static_cast<int>(groups.size()),
      [&](int i) { run(groups[static_cast<size_t>(i)], &busy[static_cast<size_t>(i)]); },
      [&](int i) {
        busy_ = busy[static_cast<size_t>(i)];
        for (const auto& state : groups[static_cast<size_t>(i)]) state->rank.experts->abort();
      });
}

void LocalPipelines::Run(const Program& order,
                         const std::function<void(const Action&)>& on_action) {
  const std::vector<Group> groups = Groups();
  if (!experts_are_spread() || groups.size() == 1) {
    RunActions(order, on_action, ranks_, &busy_);
  } else {
    InParallel(groups, [&](const Group& ranks, const RankState** busy) {
      try {
        RunActions(order, on_action, ranks, busy);
      } catch (...) {
        const std::exception_ptr seen = std::current_exception();
        ThrowIfSendDiverged(ranks, busy);
        std::rethrow_exception(seen);
      }
    });
  }
  busy_ = nullptr;
}

std::optional<RowLosses> LocalPipelines::EvaluateGroup(Group ranks, BoundaryCodec codec,
                                                       int64_t rows) const {
  std::vector<Stage*> stages;
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
  for (const auto& state : ranks) {
    stages.push_back(state->stage.get());
    backends.push_back(codec == BoundaryCodec::kOn ? state->rank.boundary : state->rank.plain);
  }
  return EvaluateRows(
      stages, backends, program_, rows, spec_.batch_rows / spec_.microbatches,
      [this](int64_t row, std::span<int64_t> ids) {
        corpus_.HeldOutRow(row, spec_.model.context, ids);
      },
      spec_.sample_boundaries, subspace_);
}

std::optional<RowLosses> LocalPipelines::Evaluate(int group, BoundaryCodec codec, int64_t rows) {
  std::optional<RowLosses> losses;
  const auto evaluate = [&](const Group& ranks, const RankState**) {
    std::optional<RowLosses> own = EvaluateGroup(ranks, codec, rows);
    if (ranks.front()->rank.group == group) losses = std::move(own);
  };
  std::vector<Group> groups = Groups();
  if (!experts_are_spread()) {
    std::erase_if(groups, [&](const Group& ranks) { return ranks.front()->rank.group != group; });
  }
  if (groups.size() > 1) {
    InParallel(groups, evaluate);
  } else if (!groups.empty()) {
    evaluate(groups.front(), nullptr);
  }
  return losses;
}

}  // namespace longhaul
