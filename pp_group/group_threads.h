#pragma once

#include <functional>

namespace longhaul {

// run(0), run(1), ... run(count - 1) at once, for groups whose ranks wait for each other in the
// midst of a stage: each on a thread of its own that computes as the calling one does. When one
// throws, `stop` is called with its number, which makes the others end that wait for it; then that
// exception is thrown here. Returns when all have ended.
void RunAtOnce(int count, const std::function<void(int)>& run,
               const std::function<void(int)>& stop);

}  // namespace longhaul
