#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"

namespace longhaul {

// Real boundary tensors of the first step of a training, of those after 10 and 50 % of it and of
// the last, as files for whoever develops codecs: what senders had before they encoded it. Each
// process writes what its ranks send. Not thread safe.
class Capture {
 public:
  // `notes` stand in every file. The folder is made when the first file is written.
  Capture(std::string folder, int64_t steps, std::map<std::string, std::string> notes);

  void BeginStep(int64_t step);            // from 1
  bool wanted() const { return wanted_; }  // this step's tensors

  // values: [rows, cols], copied. The boundary sits between stages `boundary` and `boundary` + 1.
  void Take(int group, int boundary, bool gradient, int64_t microbatch, int64_t rows,
            std::span<const float> values);

  // Writes FOLDER/step000010-group0-boundary1-gradient.safetensors, "microbatch0", ... in it.
  // Unavailable: the folder or a file of it.
  absl::Status EndStep();

 private:
  using Key = std::tuple<int, int, bool>;  // group, boundary, gradient
  struct Kept {
    int64_t rows;
    std::vector<float> values;
  };

  const std::string folder_;
  const std::map<std::string, std::string> notes_;
  std::vector<int64_t> steps_;
  int64_t step_ = 0;
  bool wanted_ = false;
  std::map<Key, std::map<int64_t, Kept>> kept_;  // then by micro-batch
};

}  // namespace longhaul
