#include "experiments/run/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compressors/catalog.h"
#include "experiments/run/boundary_memory.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/attention_kernel.h"
#include "experiments/train/traffic.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

constexpr double kFloat = sizeof(float), kId = sizeof(int64_t);
// Its threads beside those that compute: progress, codecs, heartbeat, store.
constexpr int64_t kOtherThreads = 6;
// torch's allocator of a GPU hands out memory in segments of 2 MiB and more, which one small tensor
// keeps: a quarter more than the plan, its own factor among that.
constexpr double kGpuFactor = 1.25;
// Whatever the tensors: the first segments for small and for large ones, 2 and 20 MiB; workspaces
// of cuBLAS (":4096:8") and cuBLASLt, of 32 MiB each, for the worker's thread and autograd's.
constexpr double kGpuFixedBytes = (2 + 20 + 2 * (32 + 32)) * 1024.0 * 1024.0;

// An interpreter that has imported torch.
constexpr double kPythonBytes = 150'000'000;

// Of one stage, in bytes.
struct StageBytes {
  double held = 0;     // from step to step
  double kept = 0;     // of each micro-batch between its forward and its backward pass
  double put_off = 0;  // of that, what is left between I and W of a split backward pass
  double running = 0;  // only while the stage computes
  double tied = 0;     // only behind the last backward pass, when no micro-batch is kept
  double host = 0;     // held by the host of a stage that computes on a GPU
};

bool IsAten(const RunSpec& spec) {
  const auto engine = EngineOf(spec.model, spec.train);
  return engine.ok() && *engine == "aten";
}

// A run whose compute is slept uses none.
bool OnGpu(const RunSpec& spec) { return spec.train.device != "cpu" && !spec.injected(); }

bool IsBf16(const RunSpec& spec) { return spec.train.dtype == "bfloat16"; }
double ElementBytes(const RunSpec& spec) { return IsBf16(spec) ? 2 : kFloat; }

double TokensOfMicrobatch(const RunSpec& spec) {
  return static_cast<double>(spec.train.batch_rows) / static_cast<double>(spec.train.microbatches) *
         static_cast<double>(spec.model.context);
}

// CpuGptStage: everything is made once (engines/cpu/gpt_activations.h). Evaluation has activations
// and scratch of its own size, for the rows that it takes at once. The stages of a process have one scratch,
// which is counted with the last.
StageBytes CpuComputeBytes(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                           const StageLayout& layout) {
  const auto width = static_cast<double>(spec.model.width);
  const auto blocks = static_cast<double>(layout.num_blocks);
  const double block = 15 * width + static_cast<double>(spec.model.heads) + 4;
  const double ends = (layout.first() ? width : 0) + (layout.last() ? 3 * width + 2 : 0);
  const double kept = kFloat * (blocks * block + (blocks - 1) * width + ends);
  const bool has_scratch = layout.last() || spec.net.transport != "loopback";
  const double scratch = kFloat * ((has_scratch ? 11 * width : 0) +
                                   (layout.last() ? static_cast<double>(spec.model.vocab) : 0));
  const double tokens = TokensOfMicrobatch(spec);
  const double evaluated =
      std::min(tokens, static_cast<double>(spec.eval.rows * spec.model.context));
  double bytes = MicrobatchesKept(spec, program, layout.stage) * tokens * kept + tokens * scratch;
  bytes += evaluated * kept + (evaluated < tokens ? evaluated * scratch : 0);
  return {.held = bytes};
}

// What autograd keeps of one block for a token. gpt: the block's input, both norms' outputs, q, k,
// v, attention, the stream between the halves, GELU's input and output. llama: keys and values
// stand once for each head of queries, SwiGLU keeps its four factors, RMSNorm its quotient and,
// where the input is no float, the input as one; moe: SwiGLU's factors of two experts, with each
// choice's input and output.
double AtenBlockBytes(const RunSpec& spec) {
  const ModelSpec model = spec.model;
  const auto d = static_cast<double>(model.width),
             hidden = static_cast<double>(model.hidden_width());
  const auto heads = static_cast<double>(model.heads);
  const double element = ElementBytes(spec);
  if (model.kind == "gpt") return 16 * d * element + kFloat * (heads + 4);
  const double norms = kFloat * (2 * d * (IsBf16(spec) ? 2 : 1) + 2) + kFloat * heads;
  if (model.kind == "llama") return (8 * d + 4 * hidden) * element + norms;
  // Router: logits and probabilities; ids, order and places of the two choices.
  const double router = kFloat * 4 * static_cast<double>(model.experts) + 8 * kId;
  return (12 * d + 8 * hidden) * element + norms + router;
}

// Whether a GPU's attention keeps each token's probabilities (engines/aten/device.h). Heads that the
// fused kernels cannot take go to the math kernel too.
bool KeepsProbabilities(const RunSpec& spec) {
  const bool fused = spec.train.attention == "fused" && FusedAttentionFits(spec);
  return OnGpu(spec) && !fused;
}

// More of a block, then: the probabilities, and q, k and v in float32 whatever the dtype.
double MathAttentionBytes(const RunSpec& spec) {
  if (!KeepsProbabilities(spec)) return 0;
  return kFloat * static_cast<double>(spec.model.heads * spec.model.context) +
         3 * static_cast<double>(spec.model.width) * (kFloat - ElementBytes(spec));
}

// Only while it runs: scores, and gradients of both.
double MathAttentionScratch(const RunSpec& spec) {
  if (!KeepsProbabilities(spec)) return 0;
  return kFloat *
         static_cast<double>(3 * spec.model.heads * spec.model.context + 4 * spec.model.width);
}

// Of it, what products of gradients wait for: inputs and output gradients of each linear layer.
double AtenPutOffBytes(const RunSpec& spec) {
  const ModelSpec model = spec.model;
  const auto d = static_cast<double>(model.width),
             hidden = static_cast<double>(model.hidden_width());
  const double keys = d / static_cast<double>(model.heads) * static_cast<double>(model.key_heads());
  const double element = ElementBytes(spec);
  if (model.kind == "gpt") return 16 * d * element;
  if (model.kind == "llama") return (6 * d + 2 * keys + 3 * hidden) * element;
  return (9 * d + 2 * keys + 6 * hidden + static_cast<double>(model.experts)) * element;
}

// AtenStage: graphs are made and go with each micro-batch.
StageBytes AtenComputeBytes(const RunSpec& spec, const StageLayout& layout) {
  const ModelSpec model = spec.model;
  const double tokens = TokensOfMicrobatch(spec), element = ElementBytes(spec);
  const auto d = static_cast<double>(model.width), blocks = static_cast<double>(layout.num_blocks);
  const double block = AtenBlockBytes(spec) + MathAttentionBytes(spec);
  // With recomputation the blocks' inputs alone; else also the last block's output.
  const double per_token =
      spec.train.recompute ? blocks * d * element : blocks * block + d * element;
  // Gradients of the widest layer's input and output, beside those of the stream.
  const double wide = model.kind == "gpt" ? 4 * d : static_cast<double>(model.hidden_width());
  const double choices = model.kind == "moe" ? 2 : 1;
  double running = tokens * ((spec.train.recompute ? block : 0) +
                             (2 * choices * wide + 3 * d) * element + MathAttentionScratch(spec));
  // Or, in float32 whatever the dtype, a part of the logits, their logarithms and two gradients, and
  // the gradients of what goes into the head.
  if (layout.last()) {
    const auto rows =
        static_cast<double>(spec.train.HeadRows(static_cast<int64_t>(tokens), model.vocab));
    running = std::max(
        running, rows * 3 * static_cast<double>(model.vocab) * kFloat + tokens * 2 * d * element);
  }
  return {.kept = tokens * per_token,
          .put_off = tokens * blocks * AtenPutOffBytes(spec),
          .running = running};
}

// Rows as read, as inputs and as targets, and the losses.
double RowBytes(const RunSpec& spec, const StageLayout& layout) {
  if (!layout.first() && !layout.last() && !spec.boundary.subspace) return 0;
  return 4 * static_cast<double>(spec.train.microbatches) * TokensOfMicrobatch(spec) * kId;
}

// Of a tied head's gradient: in one stage the head's part; over several, where they are in different
// processes, the part that another stage sends, and what the transport has of both parts on their way
// out and in. In one process, unless groups meet, parameters and moments are the first stage's.
StageBytes TiedBytes(const RunSpec& spec, const std::vector<int>& rank_of_stage,
                     const StageLayout& layout) {
  if (!layout.tied) return {};
  const auto floats = static_cast<double>(layout.tied->end - layout.tied->begin);
  if (layout.stages == 1) return {.held = floats * kFloat};
  if (spec.net.transport == "loopback" || rank_of_stage.front() == rank_of_stage.back()) {
    const bool one = !spec.injected() && !OuterPlanOf(spec).meets();
    return {.held = one && !layout.first() ? -3 * floats * kFloat : 0};
  }
  return {.tied = floats * kFloat + 2 * FrameBytes("none", 1, floats, DType::kF32)};
}

// While activations are taken to a subspace and back: their fixed part twice and what is left of it.
// Behind a step's last backward pass: a matrix that is held in it, and what its update goes by.
StageBytes SubspaceBytes(const RunSpec& spec, const StageLayout& layout) {
  if (!spec.boundary.subspace) return {};
  int64_t largest = 0;
  for (const ParameterSlot& slot : layout.slots) {
    if (slot.stream != StreamVectors::kNone) largest = std::max(largest, slot.elements());
  }
  return {.running = 3 * TokensOfMicrobatch(spec) * static_cast<double>(spec.model.width) * kFloat,
          .tied = 4 * static_cast<double>(largest) * kFloat};
}

double ParameterBytes(const RunSpec& spec, const StageLayout& layout) {
  const auto floats = static_cast<double>(layout.flat_elements);
  // With gradients and both moments; the shadow.
  return floats * (4 * kFloat + (IsBf16(spec) ? 2 : 0));
}

// What checkpoints and outer steps keep of the parameters, on the host wherever a stage computes.
double CopiesOfParameters(const RunSpec& spec, const StageLayout& layout) {
  const auto floats = static_cast<double>(layout.flat_elements);
  double bytes = 0;
  const OuterPlan plan = OuterPlanOf(spec);
  const bool data_parallel = plan.gradients(), outer_step = plan.exchanges();
  const OuterRule& rule = *FindOuterRule(spec.outer.algorithm);
  const bool twice = spec.outer.cluster_groups.has_value() || rule.eager;
  // What is being written, or saved at the end: parameters, moments, the outer step's start and
  // momentum; of an eager one what a group is ahead by, too.
  const bool writes = spec.checkpoint.every_steps > 0 || !spec.model.save.empty();
  if (writes) bytes += (outer_step ? (rule.eager ? 8 : twice ? 7 : 5) : 3) * floats * kFloat;
  if (!outer_step && !data_parallel) return bytes;
  // A joiner's files, in its node's memory: start, momentum, both moments.
  const bool files = spec.outer.joiner_source == "swarm" && spec.net.transport == "ucx";
  if (files) bytes += 4 * floats * kFloat;
  // The average; of an outer step also start, momentum and delta, and the average before it, which
  // the record's cosine is of (an eager group keeps that once). Of spread experts nothing crosses, and
  // the rest is laid together.
  const auto crossing = static_cast<double>(SharedElements(layout));
  // Each level has its own; an eager group's; what is sent in place of a gradient; of values that
  // are counted by sender, a count.
  const double before = data_parallel ? 0 : spec.outer.cluster_groups ? 2 : 1;
  const double copies = (data_parallel ? 1 : 4) * (twice ? 2 : 1) + before +
                        // The parameters as its class sees them; of state one tensor is counted.
                        rule.in_python + (rule.sends != OuterRule::Sends::kGradient) +
                        (spec.outer.mean == "senders");
  bytes += (copies + (crossing < floats ? 1 : 0)) * crossing * kFloat;
  // What the codec remembers, a frame of each group that meets, and what the transport has of them on
  // its way in or out.
  const auto exchange = [crossing](const OuterSpec& outer, double meeting) {
    double frame = 0;
    for (const CodecUntil& c : CodecsOf(outer)) {
      frame = std::max(frame, FrameBytes(c.codec, 1, crossing, DType::kF32));
    }
    return CodecStateBytes(outer.codec, 1, crossing) + (meeting + (meeting - 1)) * frame;
  };
  OuterSpec outer = spec.outer;
  const auto groups = static_cast<double>(spec.outer.groups);
  if (!spec.outer.cluster_groups) return bytes + exchange(outer, groups);
  const auto cluster = static_cast<double>(*outer.cluster_groups);
  bytes += exchange(outer, cluster);
  if (!outer.global_codec.empty()) outer.codec = outer.global_codec;
  return bytes + exchange(outer, groups / cluster);
}

StageBytes BytesOf(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                   const std::vector<int>& rank_of_stage, double samples,
                   const StageLayout& layout) {
  StageBytes bytes;
  if (!spec.injected())
    bytes = IsAten(spec) ? AtenComputeBytes(spec, layout) : CpuComputeBytes(spec, program, layout);
  const StageBytes tied = TiedBytes(spec, rank_of_stage, layout);
  const StageBytes subspace = SubspaceBytes(spec, layout);
  bytes.tied = tied.tied + subspace.tied;
  bytes.running = std::max(bytes.running, subspace.running);
  const BoundaryBytes boundaries = BoundariesOf(spec, rank_of_stage, samples, layout);
  if (program && !program->flushes()) {  // of this step and of those before
    bytes.held += (1 + program->StepsLate(layout.stage, 0)) *
                  static_cast<double>(layout.flat_elements) * kFloat;
  }
  bytes.held +=
      tied.held + ParameterBytes(spec, layout) + boundaries.tensors + RowBytes(spec, layout);
  bytes.host = CopiesOfParameters(spec, layout) + boundaries.frames;
  if (!OnGpu(spec)) bytes.held += std::exchange(bytes.host, 0);
  // A GPU's parameters are drawn, hashed and written on the host.
  if (OnGpu(spec)) bytes.host += static_cast<double>(layout.flat_elements) * kFloat;
  return bytes;
}

// The most that is alive at once while one thread runs these actions, in each of `groups` groups.
// `running`: groups that run at once.
double ComputePeak(const Program& program, const std::vector<StageBytes>& stages, double groups,
                   double running = 1) {
  double live = 0, peak = 0;
  for (const Action& action : program) {
    const StageBytes& stage = stages[static_cast<size_t>(action.stage)];
    if (action.op == Op::kForward) live += groups * stage.kept;
    peak = std::max(peak, live + running * stage.running);
    if (action.op == Op::kBackward) live -= groups * stage.kept;
    if (action.op == Op::kInputGradient) live -= groups * (stage.kept - stage.put_off);
    if (action.op == Op::kWeightGradient) live -= groups * stage.put_off;
  }
  return peak;
}

int64_t Clamped(double bytes) {
  return bytes < 9e18 ? static_cast<int64_t>(bytes) : std::numeric_limits<int64_t>::max();
}

// While it computes: each rank of a group, and all ranks of all groups together.
struct ComputeBytes {
  std::vector<double> ranks;
  double all = 0;
  double largest() const { return *std::max_element(ranks.begin(), ranks.end()); }
};

ComputeBytes ComputeOf(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                       const std::vector<int>& rank_of_stage,
                       const std::vector<StageBytes>& stages) {
  const auto groups = static_cast<double>(spec.outer.groups);
  ComputeBytes bytes;
  for (int rank = 0; rank < static_cast<int>(spec.ranks()); ++rank) {
    StageBytes all;  // of the rank's stages
    double held_back = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (rank_of_stage[s] != rank) continue;
      all.held += stages[s].held;
      all.tied += stages[s].tied;
      all.running = std::max(all.running, stages[s].running);
      held_back += MicrobatchesKept(spec, program, static_cast<int>(s)) * stages[s].kept;
    }
    const double compute = program
                               ? ComputePeak(program->ranks[static_cast<size_t>(rank)], stages, 1)
                               : held_back + all.running;
    const double own = all.held + std::max(compute, all.tied);
    bytes.ranks.push_back(own);
    bytes.all += groups * own;
  }
  if (!program || spec.net.transport != "loopback") return bytes;
  // Stages of one thread do not reach their own most at the same time.
  const absl::StatusOr<Program> order = GlobalOrder(*program);
  if (!order.ok()) return bytes;
  bytes.all = ComputePeak(*order, stages, groups, static_cast<double>(spec.model.expert_parallel));
  double held = 0, tied = 0;
  for (const StageBytes& stage : stages) held += stage.held, tied += stage.tied;
  bytes.all = std::max(bytes.all, groups * tied) + groups * held;
  return bytes;
}

std::vector<int64_t> GpuBytes(const RunSpec& spec, const ComputeBytes& compute) {
  if (!OnGpu(spec)) return {};
  const auto limit = [](double tensors) { return Clamped(kGpuFactor * tensors + kGpuFixedBytes); };
  if (spec.net.transport == "loopback") return {limit(compute.all)};
  std::vector<int64_t> bytes;
  for (int64_t g = 0; g < spec.outer.groups; ++g) {
    for (const double rank : compute.ranks) bytes.push_back(limit(rank));
  }
  return bytes;
}

}  // namespace

ResourcePlan PlanResources(const RunSpec& spec) {
  const bool one_process = spec.net.transport == "loopback";
  const std::optional<PipelineProgram> program = SmallProgram(spec);
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const double samples = SamplesRemembered(spec);
  std::vector<StageBytes> stages;
  for (int64_t s = 0; s < spec.stages(); ++s) {
    stages.push_back(BytesOf(spec, program, rank_of_stage, samples, LayoutOf(spec, s)));
  }
  const ComputeBytes compute = ComputeOf(spec, program, rank_of_stage, stages);
  const int64_t processes = one_process ? 1 : spec.workers();
  auto process = static_cast<double>(ProcessBytes(OnGpu(spec) ? spec.train.device : "cpu"));
  if (FindOuterRule(spec.outer.algorithm)->in_python) process += kPythonBytes;
  if (const auto& rank = spec.boundary.subspace) {  // all stages of a process have the same
    process += static_cast<double>(SubspaceElements(spec.model, *rank)) * kFloat;
  }
  // In the host's memory: where a GPU computes, what is not the GPU's.
  double all = compute.all, largest = compute.largest();
  if (OnGpu(spec)) {
    all = largest = 0;
    std::vector<double> of_ranks(static_cast<size_t>(spec.ranks()), 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      all += static_cast<double>(spec.outer.groups) * stages[s].host;
      of_ranks[static_cast<size_t>(rank_of_stage[s])] += stages[s].host;
    }
    largest = *std::max_element(of_ranks.begin(), of_ranks.end());
  }
  all += static_cast<double>(processes) * process;
  return {.processes = static_cast<int>(processes),
          .bytes = Clamped(all),
          .worker_bytes = Clamped(one_process ? all : largest + process),
          .threads = processes * (spec.limits.threads + kOtherThreads),
          .device = spec.train.device,
          .device_bytes = GpuBytes(spec, compute)};
}

int64_t ProcessBytes(std::string_view device) {
  if (device != "cpu") return 1'000'000'000;
  return LONGHAUL_TORCH_CUDA != 0 ? 190'000'000 : 60'000'000;
}

int64_t GpuBytesOfRank(const RunSpec& spec, int rank) {
  if (spec.train.device == "cpu") return 0;
  const std::vector<int64_t> bytes = PlanResources(spec).device_bytes;
  const auto index = static_cast<size_t>(rank);
  return index < bytes.size() ? bytes[index] : 0;
}

}  // namespace longhaul
