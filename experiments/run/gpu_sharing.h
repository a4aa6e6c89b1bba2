#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "experiments/train/temporary_folder.h"

namespace longhaul {

inline constexpr char kGpuSharingFact[] = "gpu_sharing";

// NVIDIA's Multi-Process Service, with which the runs of a campaign compute on a GPU side by side; without it they take
// turns. Processes that are started from now on use it, by the environment. It ends with this object, and with this
// process however that ends.
class GpuSharing {
 public:
  // Never fails a campaign: words() has what is there instead. A service that the user has started is taken and left
  // alone. `control` is the program.
  static GpuSharing Start(const std::string& control = "nvidia-cuda-mps-control");
  ~GpuSharing();
  GpuSharing(GpuSharing&&) noexcept;
  GpuSharing& operator=(GpuSharing&&) = delete;

  // For the record and for people: "MPS", "MPS, which was there", "turns: " and why.
  const std::string& words() const { return words_; }
  bool on() const { return on_; }

 private:
  GpuSharing() = default;
  static GpuSharing Turns(const std::string& why);

  bool on_ = false;
  std::string words_, control_;
  std::unique_ptr<TemporaryFolder> folder_;
  pid_t child_ = -1;  // the service that we started
};

}  // namespace longhaul
