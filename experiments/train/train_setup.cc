#include "experiments/train/train_setup.h"

#include <torch/version.h>

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "compressors/isa.h"
#include "compressors/numbers/noise.h"
#include "experiments/elastic/state_swarm.h"
#include "experiments/record/file_contents.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/boundary_codecs.h"
#include "experiments/train/boundary_state.h"
#include "experiments/train/check_training.h"
#include "experiments/train/coded_on.h"
#include "experiments/train/gpu_of_worker.h"
#include "experiments/train/model_weights.h"
#include "experiments/train/python_hooks.h"
#include "experiments/train/sample_visits.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/trace_recorder.h"
#include "pp_group/c10d_status.h"
#include "pp_group/models/model.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/state/reshard.h"
#include "pp_group/train_spec.h"

namespace longhaul {

namespace {

std::optional<InjectedCompute> ComputeOf(const RunSpec& spec) {
  if (!spec.injected()) return std::nullopt;
  const auto durations = [](const std::vector<double>& seconds) {
    std::vector<absl::Duration> out;
    for (const double s : seconds) out.push_back(absl::Seconds(s));
    return out;
  };
  return InjectedCompute{.forward = durations(spec.compute->forward_s),
                         .backward = durations(spec.compute->backward_s),
                         .optimizer = absl::Seconds(spec.compute->optimizer_s),
                         .sleep = absl::SleepFor};
}

}  // namespace

TrainSpec ToTrainSpec(const RunSpec& spec) {
  TrainSpec train{.model = spec.model,
                  .stages = static_cast<int>(spec.schedule.stages),
                  .groups = static_cast<int>(spec.outer.groups),
                  .schedule = spec.schedule.kind,
                  .microbatches = spec.train.microbatches,
                  .batch_rows = spec.train.batch_rows,
                  .steps = Steps(spec),
                  .inner = spec.train,
                  .outer = spec.outer,
                  .seed = static_cast<uint64_t>(spec.seed),
                  .cuts = spec.schedule.cuts,
                  .mask_gradients = spec.boundary.mask_gradients,
                  .subspace = spec.boundary.subspace.value_or(0),
                  .sample_boundaries = SampleBoundaries(spec),
                  .exact_boundaries = SendsExact(spec),
                  .compute = ComputeOf(spec),
                  .stage_compute = spec.train,
                  .chunks = static_cast<int>(spec.schedule.chunks),
                  .depth = static_cast<int>(spec.schedule.depth),
                  .hash_every = spec.train.hash_every.value_or(0),
                  .checkpoint_every = spec.checkpoint.every_steps};
  if (!spec.schedule.csv.empty()) {  // CheckTraining says why where it is no program
    if (auto program = PipelineOf(spec); program.ok()) train.program = *std::move(program);
  }
  if (const auto own = PythonClassOf(spec.outer.algorithm)) {  // CheckFiles says why it has no hash
    train.outer_source = Sha256OfFile(own->file).value_or("");
    train.outer_hooks = PythonOuterHooks(*own, spec.limits.threads);
  }
  if (spec.model.init.empty()) return train;
  auto weights = ModelWeights::Open(spec.model.init, spec);
  if (weights.ok()) train.initial_hash = (*weights)->hash();
  train.initial = [weights = std::move(weights)](const StageLayout& layout, float* flat) {
    return weights.ok() ? (*weights)->Fill(layout, flat) : weights.status();
  };
  return train;
}

absl::Status CheckTraining(const RunSpec& spec, const Corpus& corpus) {
  RETURN_IF_ERROR(PipelineOf(spec).status());
  RETURN_IF_ERROR(CheckTrainSpec(ToTrainSpec(spec), corpus));
  if (spec.boundary.policy) {
    RETURN_IF_ERROR(CodecChoice::Of(spec).status());
  }
  if (!spec.model.init.empty()) {
    if (auto w = ModelWeights::Open(spec.model.init, spec); !w.ok()) return w.status();
  }
  if (spec.outer.joiner_source == "swarm" && spec.net.transport == "ucx" && !SwarmIsBuilt()) {
    return absl::FailedPreconditionError(
        "outer.joiner_source = \"swarm\" needs a longhaul that was built with "
        "libtorrent-rasterbar (longhaul doctor names the package), or \"member\"");
  }
  RETURN_IF_ERROR(MakeWeightFolder(spec.model.save));
  const int64_t rows = corpus.held_out_rows(spec.model.context);
  if (spec.eval.rows <= rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'eval.rows' is ", spec.eval.rows, "; want 1 to ", rows, ": ", spec.data.source,
      " holds out ", corpus.held_out_tokens(), " tokens, rows of ", spec.model.context));
}

absl::Status CheckRestoring(const RunSpec& spec, const Corpus& corpus) {
  if (spec.checkpoint.from.empty()) return absl::OkStatus();
  const TrainSpec train = ToTrainSpec(spec);
  return CheckRestorable(spec.checkpoint.from, train, CanonicalText(train, corpus));
}

namespace {

std::shared_ptr<Capture> CaptureOf(const RunSpec& spec) {
  if (spec.boundary.capture.empty()) return nullptr;
  const RunSpec::Boundary::Cut codecs = CodecText(spec);
  return std::make_shared<Capture>(
      spec.boundary.capture, Steps(spec),
      std::map<std::string, std::string>{{"activation_codec", codecs.forward},
                                         {"gradient_codec", codecs.backward},
                                         {"seed", absl::StrCat(spec.seed)},
                                         {"steps", absl::StrCat(Steps(spec))}});
}

// The local stages of the group that was evaluated; where groups have just met, every group's.
// Where experts are spread, every group has a part.
absl::Status SaveWeights(Trainer& trainer, const RunSpec& spec) {
  ASSIGN_OR_RETURN(const std::vector<Checkpoint> ranks, trainer.Snapshot());
  for (const Checkpoint& rank : ranks) {
    const bool holds_experts = spec.model.expert_parallel > 1;
    if (!holds_experts && rank.group != trainer.evaluated_group()) continue;
    ASSIGN_OR_RETURN(const auto values, rank.Section("parameters"));
    const auto* flat = reinterpret_cast<const float*>(values.data());
    RETURN_IF_ERROR(
        WriteStageWeights(spec.model.save, spec, rank.stage, flat, holds_experts ? rank.group : 0));
  }
  return absl::OkStatus();
}

std::function<absl::Status(Trainer&)> SaveWeightsOf(const RunSpec& spec) {
  if (spec.model.save.empty()) return {};
  return [spec](Trainer& trainer) { return SaveWeights(trainer, spec); };
}

}  // namespace

RunLoopOptions ToLoopOptions(const RunSpec& spec, const std::string& checkpoint_directory) {
  return {.steps = Steps(spec),
          .outer = OuterPlanOf(spec),
          .eval_rows = spec.injected() ? 0 : spec.eval.rows,
          .trains = !spec.injected(),
          .forward_is_identity = CodecText(spec).forward == "none",
          .checkpoint_directory = spec.checkpoint.every_steps > 0 ? checkpoint_directory : "",
          .checkpoint_every = spec.checkpoint.every_steps,
          .checkpoints_kept = spec.checkpoint.keep,
          .restore_from = spec.checkpoint.from,
          .interface = "",
          .gpu = GpuOf(spec),
          .capture = CaptureOf(spec),
          .trace = spec.trace
                       ? std::make_shared<TraceRecorder>(*spec.trace, spec.train.microbatches)
                       : nullptr,
          .save_weights = SaveWeightsOf(spec)};
}

c10::intrusive_ptr<ProcessGroupLonghaul::Options> ToGroupOptions(const RunSpec& spec,
                                                                 GroupKind kind, int index,
                                                                 std::shared_ptr<Node> node) {
  auto options = c10::make_intrusive<ProcessGroupLonghaul::Options>();
  const char* names[] = {"boundary", "plain", "outer", "experts", "tied"};
  options->group_name = absl::StrCat(names[static_cast<int>(kind)], "/", index);
  options->node = std::move(node);
  options->seed = FoldSeed({static_cast<uint64_t>(spec.seed), static_cast<uint64_t>(kind),
                            static_cast<uint64_t>(index)});
  // A dead peer is found by its silence; this only bounds an operation nobody answers.
  options->timeout =
      std::chrono::milliseconds(static_cast<int64_t>(spec.net.peer_deadline_s * 1000) + 600'000);
  if (kind == GroupKind::kBoundary) {
    options->codecs.forward = spec.boundary.forward;
    options->codecs.backward = spec.boundary.backward;
    if (const auto& policy = spec.boundary.policy) {  // until its first choice, and so that it may
      if (!policy->forward.empty()) options->codecs.forward = policy->forward.front();
      if (!policy->backward.empty()) options->codecs.backward = policy->backward.front();
    }
    for (const int b : SampleBoundaries(spec)) {  // held-out rows are no samples: first visits
      options->codecs.by_tag[spec.schedule.chunks == 1 ? kSampleEvaluationTag
                                                       : kActivationTag | kEvaluationChannel | b] =
          "fp16";
    }
    for (const auto& [boundary, codecs] : spec.boundary.cuts) {
      const auto b = static_cast<int>(boundary);
      if (spec.schedule.chunks == 1) {
        options->codecs.by_boundary[b] = {codecs.forward, codecs.backward};
      } else {  // two ranks have several boundaries between them: the tag says which
        options->codecs.by_tag[kActivationTag | b] = codecs.forward;
        options->codecs.by_tag[kGradientTag | b] = codecs.backward;
        options->codecs.by_tag[kActivationTag | kEvaluationChannel | b] = codecs.forward;
      }
    }
    options->codecs.min_elements = 1;  // a boundary under test is never sent by another codec
    // What a codec loses on injected tensors says nothing about a training's.
    options->nmse_every = spec.injected() ? 0 : static_cast<int>(spec.boundary.nmse_every);
    // Every schedule sends a stage's micro-batches in their order, and a boundary's tensors have
    // channels of their own, so that the slot of a message is its micro-batch. (Where ranks have one
    // stage the two ranks are the boundary; else its tag is, and each boundary has M slots.)
    options->ef_slots = static_cast<int>(spec.train.microbatches);
  }
  return options;
}

std::optional<int> TiedPlaceOf(const RunSpec& spec, int stage) {
  const auto last = static_cast<int>(spec.schedule.stages) - 1;
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  if (!spec.model.tied_head || rank_of_stage.front() == rank_of_stage.back()) return std::nullopt;
  if (stage == 0) return 0;
  return stage == last ? std::optional(1) : std::nullopt;
}

void EmitRunFacts(const RunSpec& spec, const Corpus& corpus, EventSink& sink) {
  const auto fact = [&](const char* key, const nlohmann::json& value) {
    sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
  };
  fact("torch", TORCH_VERSION);
  fact("threads", at::get_num_threads());
  fact("cpu_path_torch", at::get_cpu_capability());
  fact("cpu_path_codecs", std::string(IsaName(BestIsa())));
  const absl::StatusOr<std::string> engine = EngineOf(spec.model, spec.train);
  fact("engine", spec.injected() ? "none: compute is injected" : engine.value_or("none"));
  fact("device", spec.train.device);
  fact("dtype", spec.train.dtype);
  if (const std::string on = CodedOn(spec); !on.empty()) fact(kCodedOnFact, on);
  if (!spec.model.init.empty()) fact("init_hash", ToTrainSpec(spec).initial_hash);
  fact("data_source", spec.data.source);
  if (!spec.data.eval.empty()) fact("eval_source", spec.data.eval);
  fact("train_tokens_available", corpus.train_tokens());
  fact("held_out_tokens_available", corpus.held_out_tokens());
  fact("data_hash", corpus.train_hash());
  fact("eval_hash", corpus.held_out_hash());
  if (spec.injected()) return;  // nothing is trained on or evaluated
  fact(kHeldOutInTrainingFact,
       absl::StrCat(corpus.HeldOutRowsInTraining(spec.eval.rows, spec.model.context), " of ",
                    spec.eval.rows));
  fact(kEpochsFact, absl::StrFormat("%.4g", static_cast<double>(TrainTokens(spec)) /
                                                static_cast<double>(corpus.train_tokens())));
  fact(kUnigramFact,
       absl::StrFormat("%.6f", UnigramEntropy(corpus, spec.eval.rows, spec.model.context)));
}

std::vector<LocalTelemetry> StagesOfRank(const RunSpec& spec, int group, int rank) {
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const auto first = static_cast<int>(spec.ranks()) * group;
  std::vector<LocalTelemetry> stages;
  for (int s = 0; s < static_cast<int>(rank_of_stage.size()); ++s) {
    if (rank_of_stage[static_cast<size_t>(s)] != rank) continue;
    LocalTelemetry stage{.rank = first + rank, .group = group, .stage = s};
    stage.looped = spec.schedule.chunks > 1;
    stage.lowest = stages.empty();
    if (const std::optional<int> place = TiedPlaceOf(spec, s)) {
      stage.tied_peer = *place == 0 ? rank_of_stage.back() : rank_of_stage.front();
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

LocalRank ToLocalRank(const LocalTelemetry& rank, BoundaryCodecs* codecs, Capture* capture,
                      TraceRecorder* trace) {
  std::function<void(const BoundaryTensor&)> watch;
  if (capture != nullptr || codecs != nullptr) {
    watch = [rank, codecs, capture, group = rank.group](const BoundaryTensor& x) {
      if (codecs != nullptr) codecs->Before(rank, x);
      if (capture == nullptr || !capture->wanted()) return;
      const at::Tensor values = x.values.to(at::kCPU, at::kFloat);
      const auto n = static_cast<size_t>(values.numel());
      capture->Take(group, x.boundary, x.gradient, x.microbatch, values.size(0),
                    {values.const_data_ptr<float>(), n});
    };
  }
  SpanWatch spans;
  if (trace != nullptr) {
    trace->WatchGroups(rank);
    spans = trace->SpansOf(rank.rank);
  }
  return {.group = rank.group,
          .stage = rank.stage,
          .boundary = rank.boundary,
          .plain = rank.plain,
          .outer = rank.outer,
          .boundary_state = rank.lowest ? StateOfGroup(rank.boundary) : nullptr,
          .watch = std::move(watch),
          .spans = std::move(spans),
          .experts = rank.experts,
          .tied = rank.tied};
}

}  // namespace longhaul
