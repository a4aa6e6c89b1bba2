#include "experiments/run/memory_plan.h"

#include <algorithm>
#include <limits>

#include "compressors/catalog.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/traffic.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

constexpr double kFloat = sizeof(float), kId = sizeof(int64_t);
// Measured: what a process of a run holds before its first tensor, torch's libraries included where
// they are its own. Its threads beside those that compute: progress, codecs, heartbeat, store.
constexpr double kProcessBytes = 110e6;
constexpr int64_t kOtherThreads = 6;
// Of a process on a GPU: its context and the libraries' workspaces. Not measured here.
constexpr double kDeviceContextBytes = 600e6;

double FrameBytes(const std::string& codec, double rows, double cols) {
  const auto made = MakeCodec(codec);
  // A shape whose product leaves 64 bits is refused by its plain size.
  if (!made.ok() || rows * cols > 1e18) return rows * cols * kFloat;
  const Shape shape{static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
  return static_cast<double>((*made)->MaxFrameBytes(shape, DType::kF32));
}

bool IsAten(const RunSpec& spec) {
  const auto engine = EngineOf(ToModelSpec(spec), ToComputeSpec(spec));
  return engine.ok() && *engine == "aten";
}

double ElementBytes(const RunSpec& spec) { return spec.train.dtype == "bfloat16" ? 2 : 4; }

// Of one micro-batch on one stage: CpuGptStage's activations.
double CpuActivationBytes(const RunSpec& spec, double tokens, const StageLayout& layout) {
  const auto width = static_cast<double>(spec.model.width);
  const auto blocks = static_cast<double>(layout.num_blocks);
  const double block = 15 * width + static_cast<double>(spec.model.heads) + 4;
  const double ends = (layout.first() ? width : 0) + (layout.last() ? 3 * width + 2 : 0);
  return tokens * kFloat * (blocks * block + (blocks - 1) * width + ends);
}

// What autograd keeps of one block for a token, in elements. gpt: the block's input, both norms'
// outputs, q, k, v, attention, the stream between the halves, GELU's input and output. llama:
// RMSNorm keeps its quotient too, keys and values stand once for each head of queries, SwiGLU keeps
// its four factors; moe: those of two experts, with each choice's input and output.
double AtenBlockElements(const RunSpec& spec) {
  const ModelSpec model = ToModelSpec(spec);
  const auto d = static_cast<double>(model.width),
             hidden = static_cast<double>(model.hidden_width());
  const auto heads = static_cast<double>(model.heads);
  if (model.kind == "gpt") return 16 * d + heads + 4;
  if (model.kind == "llama") return 10 * d + 4 * hidden + heads + 2;
  return 14 * d + 8 * hidden + heads + 6 * static_cast<double>(model.experts);
}

// Of `kept` micro-batches, and what one of them takes while it runs.
double AtenActivationBytes(const RunSpec& spec, double tokens, const StageLayout& layout,
                           double kept) {
  const ModelSpec model = ToModelSpec(spec);
  const auto d = static_cast<double>(model.width), blocks = static_cast<double>(layout.num_blocks);
  const double block = AtenBlockElements(spec);
  const double wide = model.kind == "gpt" ? 4 * d : static_cast<double>(model.hidden_width());
  const double per_token = spec.train.recompute ? blocks * d : blocks * block + d;
  const double running = (spec.train.recompute ? block : 0) + 3 * wide + 4 * d;
  // Logits, their logarithms and gradient; in float32 whatever the dtype.
  const double logits = layout.last() ? 3 * static_cast<double>(model.vocab) * kFloat : 0;
  return tokens * ((kept * per_token + running) * ElementBytes(spec) + logits);
}

double PipelineBytes(const RunSpec& spec, const StageLayout& layout) {
  const auto microbatches = static_cast<double>(spec.train.microbatches);
  const auto width = static_cast<double>(spec.model.width);
  const double tokens = static_cast<double>(spec.train.batch_rows) / microbatches *
                        static_cast<double>(spec.model.context);
  const auto schedule = FindSchedule(spec.schedule.kind);
  const double kept = schedule.ok()
                          ? schedule->peak_activations(layout.stage, layout.stages,
                                                       static_cast<int>(spec.train.microbatches))
                          : microbatches;
  // Evaluation keeps one more while the steps' own are still there.
  double bytes = 0;
  if (!spec.compute) {
    bytes = IsAten(spec) ? AtenActivationBytes(spec, tokens, layout, kept)
                         : (kept + 1) * CpuActivationBytes(spec, tokens, layout);
  }
  for (const int64_t boundary : {layout.stage - 1, layout.stage}) {
    if (boundary < 0 || boundary + 1 >= layout.stages) continue;
    const RunSpec::Boundary::Cut codecs = CodecsOf(spec, boundary);
    const double frames =
        FrameBytes(codecs.forward, tokens, width) + FrameBytes(codecs.backward, tokens, width);
    bytes += microbatches * (2 * tokens * width * ElementBytes(spec) + frames);
  }
  // Scratch of both passes; of the last stage also the logits.
  if (!IsAten(spec)) {
    bytes += tokens * kFloat *
             (11 * width + (layout.last() ? static_cast<double>(spec.model.vocab) : 0));
  }
  // Rows as read, as inputs and as targets, and the losses.
  return bytes + 4 * microbatches * tokens * kId;
}

double ParameterBytes(const RunSpec& spec, const StageLayout& layout) {
  const auto floats = static_cast<double>(layout.flat_elements);
  double bytes = 4 * floats * kFloat;                       // with gradients and both moments
  if (spec.train.dtype == "bfloat16") bytes += floats * 2;  // the shadow
  const bool data_parallel = spec.outer.algorithm == "dp";
  if (spec.outer.inner_steps == 0 && !data_parallel) return bytes;
  // An outer step's start, momentum and delta; the average, what a codec keeps, and a frame of each
  // group.
  bytes += (data_parallel ? 2 : 5) * floats * kFloat;
  return bytes +
         static_cast<double>(spec.outer.groups + 1) * FrameBytes(spec.outer.codec, 1, floats);
}

int64_t Clamped(double bytes) {
  return bytes < 9e18 ? static_cast<int64_t>(bytes) : std::numeric_limits<int64_t>::max();
}

}  // namespace

ResourcePlan PlanResources(const RunSpec& spec, int64_t corpus_bytes) {
  const bool one_process = spec.net.transport == "loopback";
  const double base = kProcessBytes + static_cast<double>(corpus_bytes);
  double stages = 0, largest = 0;  // without what a process has anyway
  for (int64_t s = 0; s < spec.schedule.stages; ++s) {
    const StageLayout layout = LayoutOf(spec, s);
    const double bytes = ParameterBytes(spec, layout) + PipelineBytes(spec, layout);
    stages += bytes;
    largest = std::max(largest, bytes);
  }
  const auto groups = static_cast<double>(spec.outer.groups);
  const int64_t ranks = spec.schedule.stages * spec.outer.groups;
  const int64_t processes = one_process ? 1 : ranks;
  const double all = groups * stages + static_cast<double>(processes) * base;
  return {.processes = static_cast<int>(processes),
          .bytes = Clamped(all),
          .worker_bytes = Clamped(one_process ? all : largest + base),
          .device_bytes =
              spec.train.device == "cpu"
                  ? 0
                  : Clamped(groups * stages + static_cast<double>(processes) * kDeviceContextBytes),
          .threads = processes * (spec.limits.threads + kOtherThreads)};
}

}  // namespace longhaul
