#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "tests/backend/local_groups.h"

namespace longhaul {

using LocalGroup = std::vector<c10::intrusive_ptr<ProcessGroupLonghaul>>;

// A group named `name` of `ranks` fresh loopback nodes. `configure` may change the options.
inline LocalGroup LoopbackGroup(
    int ranks, const std::function<void(ProcessGroupLonghaul::Options&)>& configure = {}) {
  ProcessGroupLonghaul::Options options;
  options.group_name = "test";
  options.timeout = std::chrono::seconds(20);
  if (configure) configure(options);
  return MakeLocalGroup(MakeLoopbackNodes(ranks), options);
}

// Runs body(rank, its view of the group) on one thread per rank; rethrows the first exception.
inline void OnAllRanks(const LocalGroup& group,
                       const std::function<void(int, ProcessGroupLonghaul&)>& body) {
  std::vector<std::exception_ptr> thrown(group.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < group.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(static_cast<int>(rank), *group[rank]);
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace longhaul
