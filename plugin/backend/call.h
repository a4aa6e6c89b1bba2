#pragma once

#include <functional>

#include "plugin/backend/process_group.h"

namespace longhaul {

// What NewWork needs to know of one operation.
struct ProcessGroupLonghaul::Call {
  c10d::OpType type;
  const char* op;
  const char* profiling_title;
  const std::vector<at::Tensor>& inputs;  // as the caller gave them, for the profiler
  std::vector<Staging> stagings;
  std::vector<at::Tensor> outputs;
  // Makes the outputs instead, on a thread of its own, when all has come.
  std::function<std::vector<at::Tensor>()> assemble = nullptr;
  int parts = 1;  // how many callbacks of core end it
  std::chrono::milliseconds timeout = LonghaulWork::kUnsetWait;
};

}  // namespace longhaul
