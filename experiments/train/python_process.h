#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace longhaul {

// The interpreter beside this process in which classes of the user's files run
// (python/longhaul/hooks.py): requests and answers are lines of JSON on a socket, tensors lie in memory
// that both have mapped. A process of its own, because many interpreters are no shared library that
// could be loaded, and so that what a user's code does to its process is not done to this one.
//
// It ends with this object, and with the thread that started it: nothing is left behind however this
// process ends.
class PythonProcess {
 public:
  // The one of this process, started where there is none. Errors: no interpreter, no package, no torch
  // in it.
  static absl::StatusOr<std::shared_ptr<PythonProcess>> OfThisProcess(int64_t threads);
  ~PythonProcess();

  // FailedPrecondition: "error" of the answer. Unavailable: the process has ended.
  absl::StatusOr<nlohmann::json> Ask(const nlohmann::json& request);

  // [elements] f32 of the memory; zeros.
  struct Place {
    int64_t at, elements;
  };
  absl::StatusOr<Place> NewTensor(int64_t elements);
  // A view, valid however long this object lives.
  absl::StatusOr<at::Tensor> ViewOf(Place place) const;
  void Forget(std::span<const Place> places);  // gives its pages back

 private:
  PythonProcess(pid_t pid, int socket, int memory) : pid_(pid), socket_(socket), memory_(memory) {}
  absl::StatusOr<std::string> ReadLine();
  absl::Status Ended();

  const pid_t pid_;
  const int socket_, memory_;
  int64_t end_ = 0;      // of the memory
  std::string pending_;  // read and behind the last line
  std::mutex mutex_;
};

}  // namespace longhaul
