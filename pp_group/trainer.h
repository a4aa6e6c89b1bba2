#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pp_group/corpus.h"

namespace longhaul {

// Letters (pp_group/README.md): S stages, G groups, M micro-batches, B rows, T tokens of a row,
// D width, V vocab, N parameters of a stage, H inner steps.

// Decoder-only GPT: learned positions, pre-norm, GELU, untied head. `blocks` is divisible by S.
struct GptSpec {
  int64_t blocks;
  int64_t width;
  int64_t heads;
  int64_t context;
  int64_t vocab;
};

struct AdamWSpec {
  double lr;                   // peak; cosine to min_lr_fraction over the run's own length
  double min_lr_fraction = 0.1;
  int64_t warmup_steps = 0;    // linear
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip_norm = 1.0;      // per stage (no cross-stage traffic); infinity: off
};

struct OuterSpec {
  int64_t inner_steps;  // H; 0: no outer step ever (G must be 1)
  double lr = 0.7;
  double momentum = 0.9;  // Nesterov
  std::string codec = "none";  // of the outer delta, e.g. "int4-b64-h64+ef"
};

struct TrainSpec {
  GptSpec model;
  int stages;               // S
  int groups;               // G
  std::string schedule;     // "gpipe" or "1f1b"
  int64_t microbatches;     // M, divides batch_rows
  int64_t batch_rows;       // B rows per group and inner step
  int64_t steps;            // inner steps of the whole run
  AdamWSpec inner;
  OuterSpec outer;
  uint64_t seed;            // initial weights, data order, codec noise of the outer delta
};

// One rank that lives in this process. A run in one process has all S*G of them; a worker has one.
// c10d groups of the pipeline (S ranks, group rank = stage): `boundary` may compress, `plain` never
// does (evaluation with the codec off, hashes). `outer`: the G peers of one stage (group rank = g).
struct LocalRank {
  int group;
  int stage;
  c10::intrusive_ptr<c10d::Backend> boundary;
  c10::intrusive_ptr<c10d::Backend> plain;
  c10::intrusive_ptr<c10d::Backend> outer;  // null when G == 1
};

// Of one local rank and one inner step.
struct StepReport {
  int group, stage;
  int64_t step;                // 1-based, the step just finished
  std::optional<double> loss;  // nat/token over the step's batch; the last stage only
  int64_t tokens;              // of this group's batch
  absl::Duration wall, forward, backward, optimizer, wait, outer;  // wait: blocked on a receive
  bool outer_synced;
  int64_t outer_bytes_sent;    // frames of the outer delta handed to c10d
  uint64_t parameter_hash;     // of the stage's parameters after the step
};

enum class BoundaryCodec { kOn, kOff };
struct Evaluation {
  double loss;     // nat/token
  int64_t tokens;
  double block_se; // standard error over rows, nat
};

// Runs PP-Group DiLoCo for the local ranks: cooperatively in one thread when there are several,
// blocking on receives when there is one. Either way the same sequence of floating-point
// operations, so losses are bit-identical. Not thread safe; uses the calling thread only and
// whatever at::get_num_threads() says.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // InvalidArgument: S does not divide the blocks, M not the rows, unknown schedule or codec, ...
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const TrainSpec& spec, std::vector<LocalRank> ranks, std::shared_ptr<const Corpus> corpus,
      std::function<absl::Duration()> now);

  // One inner step of every local rank, and the outer step when it is due. Unavailable or
  // DeadlineExceeded: a peer is gone. A NaN loss is not an error: it is in the report.
  virtual absl::StatusOr<std::vector<StepReport>> Step() = 0;

  // Held-out loss of the current (after an outer step: averaged) parameters, on the local last
  // stages; nullopt where the last stage of group 0 is not local. `rows`: how many rows of the
  // held-out part, from its start.
  virtual absl::StatusOr<std::optional<Evaluation>> Evaluate(BoundaryCodec codec, int64_t rows) = 0;

  virtual int64_t step() const = 0;  // finished inner steps

  // One file per local rank, written to a temporary name and renamed; SHA-256 or CRC32C inside.
  // Load takes what Save wrote for the same spec; DataLoss: truncated or corrupt, nothing changed.
  virtual absl::Status SaveCheckpoint(const std::string& directory) const = 0;
  virtual absl::Status LoadCheckpoint(const std::string& directory) = 0;
};

}  // namespace longhaul
