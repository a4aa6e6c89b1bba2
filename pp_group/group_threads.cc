#include "pp_group/group_threads.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

namespace longhaul {

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

}  // namespace longhaul
