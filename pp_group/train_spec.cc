#include "pp_group/train_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "pp_group/c10d_status.h"
#include "pp_group/models/model.h"
#include "pp_group/outer/group_average.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"
#include "pp_group/subspace.h"

namespace longhaul {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("train spec: ", parts...));
}

absl::Status CheckData(const ModelSpec& model, const Corpus& corpus) {
  if (model.vocab != corpus.vocab()) {
    return Bad("vocab ", model.vocab, ", but the corpus was opened with ", corpus.vocab());
  }
  if (corpus.train_rows(model.context) < 1 || corpus.held_out_rows(model.context) < 1) {
    return Bad("context ", model.context, " does not fit the corpus: ", corpus.train_tokens(),
               " tokens to train on, ", corpus.held_out_tokens(), " held out");
  }
  return absl::OkStatus();
}

// What hangs on the length of the run, on codecs, or on both optimizers.
absl::Status CheckOptimizers(const TrainSpec& spec) {
  const std::string inner = InnerOptimizerOf(spec.inner.optimizer, spec.outer.algorithm);
  const bool moment = FindOuterRule(spec.outer.algorithm)->sends == OuterRule::Sends::kMoment;
  if (moment != (inner == "onebit-adam")) {
    return Bad("inner optimizer '", inner, "' with the outer algorithm '", spec.outer.algorithm,
               "': 'onebit-adam' wants the other to be that, too");
  }
  if (spec.outer.warmup() > spec.steps) {
    return Bad("outer warmup_steps ", spec.outer.warmup(), " of ", spec.steps, " steps");
  }
  const OuterPlan plan(spec.outer, spec.steps);
  if (plan.exchanges() && spec.outer.rate_warmup() > plan.rounds()) {
    return Bad("outer lr_warmup_rounds ", spec.outer.rate_warmup(), " of ", plan.rounds(),
               " rounds");
  }
  const absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeCodec(spec.outer.codec);
  return codec.ok() ? CheckOuterCodec(**codec) : codec.status();
}

absl::Status CheckWithoutFlush(const TrainSpec& spec, const PipelineProgram& program,
                               bool elastic = false) {
  if (program.flushes()) return absl::OkStatus();
  const std::string why =
      RefusalWithoutFlush({.tied_head = spec.model.tied_head && spec.stages > 1,
                           .spread_experts = spec.model.expert_parallel > 1,
                           .outer_overlaps = FindOuterRule(spec.outer.algorithm)->overlaps,
                           .elastic_groups = elastic,
                           .injected_compute = spec.compute.has_value()});
  return why.empty() ? absl::OkStatus() : Bad("schedule '", spec.schedule, "' ", why);
}

// A channel remembers one sample.
absl::Status CheckSamples(const TrainSpec& spec, const PipelineProgram& program,
                          const Corpus& corpus) {
  if (spec.sample_boundaries.empty()) return absl::OkStatus();
  const int64_t channels = SampleChannels(program, corpus.train_rows(spec.model.context));
  if (channels <= kSampleChannel) return absl::OkStatus();
  return Bad("a boundary's codec remembers samples: ", channels,
             " channels for the windows of the data, want at most ", kSampleChannel,
             "; take a longer context or less data");
}

std::string Exact(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return text;
}

}  // namespace

absl::Status CheckTrainSpec(const TrainSpec& spec, const Corpus& corpus) {
  RETURN_IF_ERROR(CheckModel(spec.model, spec.stage_compute));
  RETURN_IF_ERROR(CheckData(spec.model, corpus));
  ASSIGN_OR_RETURN(const PipelineProgram program, ProgramOf(spec));
  RETURN_IF_ERROR(CheckSamples(spec, program, corpus));
  RETURN_IF_ERROR(CheckWithoutFlush(spec, program));
  return CheckOptimizers(spec);
}

int64_t SampleChannels(const PipelineProgram& program, int64_t windows) {
  const int stages = program.num_stages();
  return stages > program.num_ranks() ? windows * stages : windows;
}

absl::StatusOr<PipelineProgram> ProgramOf(const TrainSpec& spec) {
  PipelineProgram program;
  if (spec.program) {
    program = *spec.program;
  } else {
    const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule);
    if (!schedule.ok()) return schedule.status();
    const PipelineShape shape{.ranks = spec.stages / spec.chunks,
                              .chunks = spec.chunks,
                              .microbatches = static_cast<int>(spec.microbatches),
                              .depth = spec.depth};
    RETURN_IF_ERROR(CheckShape(*schedule, shape));
    program = ProgramOf(*schedule, shape);
  }
  RETURN_IF_ERROR(CheckProgram(program));
  RETURN_IF_ERROR(CheckMicrobatchOrder(program));
  return program;
}

std::vector<int> RanksOfStages(const TrainSpec& spec) {
  std::vector<int> own_rank_each(static_cast<size_t>(spec.stages));
  std::iota(own_rank_each.begin(), own_rank_each.end(), 0);
  if (spec.chunks == 1 && !spec.program) return own_rank_each;
  absl::StatusOr<PipelineProgram> program = ProgramOf(spec);
  return program.ok() ? std::move(program->rank_of_stage) : own_rank_each;
}

absl::Status CheckLocalRanks(const TrainSpec& spec, const PipelineProgram& program,
                             const std::vector<LocalRank>& ranks, bool elastic) {
  if (ranks.empty()) return Bad("no local rank");
  RETURN_IF_ERROR(CheckWithoutFlush(spec, program, elastic));
  const int num_ranks = program.num_ranks();
  const bool ends_apart = program.rank_of_stage.front() != program.rank_of_stage.back();
  std::map<std::pair<int, int>, int> held;  // stages of a group's rank
  for (size_t i = 0; i < ranks.size(); ++i) {
    const LocalRank& rank = ranks[i];
    const bool end = rank.stage == 0 || rank.stage == spec.stages - 1;
    const std::string name = absl::StrCat("rank of group ", rank.group, ", stage ", rank.stage);
    if (rank.group < 0 || rank.group >= spec.groups || rank.stage < 0 ||
        rank.stage >= spec.stages) {
      return Bad(name, ": outside of ", spec.groups, " groups of ", spec.stages, " stages");
    }
    const int of_pipeline = program.rank_of_stage[static_cast<size_t>(rank.stage)];
    ++held[{rank.group, of_pipeline}];
    for (const auto& [what, backend, rank_in, size, needed] :
         {std::tuple{"boundary", rank.boundary, of_pipeline, num_ranks, num_ranks > 1},
          std::tuple{"plain", rank.plain, of_pipeline, num_ranks, num_ranks > 1},
          std::tuple{"outer", rank.outer, rank.group, spec.groups, spec.groups > 1 && !elastic},
          std::tuple{"experts", rank.experts, rank.group, spec.groups,
                     spec.model.expert_parallel > 1},
          std::tuple{"tied", rank.tied, rank.stage == 0 ? 0 : 1, 2,
                     spec.model.tied_head && ends_apart && end}}) {
      if (!needed) continue;
      if (backend == nullptr) return Bad(name, ": no ", what, " backend");
      if (backend->getRank() != rank_in || backend->getSize() != size) {
        return Bad(name, ": ", what, " backend is rank ", backend->getRank(), " of ",
                   backend->getSize(), ", want ", rank_in, " of ", size);
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (ranks[j].group == rank.group && ranks[j].stage == rank.stage) return Bad(name, " twice");
    }
  }
  for (const auto& [place, stages] : held) {
    if (stages == spec.chunks) continue;
    return Bad("rank ", place.second, " of group ", place.first, ": ", stages,
               " of its stages are here, want all ", spec.chunks);
  }
  return absl::OkStatus();
}

namespace {

// What a written-out GPT in float32 on the CPU has not; of that, nothing.
std::string ModelText(const TrainSpec& spec) {
  const ModelSpec& m = spec.model;
  const ComputeSpec& c = spec.stage_compute;
  const absl::StatusOr<std::string> engine = EngineOf(m, c);
  if (m.kind == "gpt" && engine.ok() && *engine == "cpu") return "";
  std::string text =
      absl::StrCat("\nkind=", m.kind, "\nengine=", engine.ok() ? *engine : m.engine,
                   "\ndevice=", c.device == "cpu" ? "cpu" : "cuda", "\ndtype=", c.dtype);
  if (m.kind == "gpt") return text;
  absl::StrAppend(&text, "\nkv_heads=", m.key_heads(), "\nhidden=", m.hidden_width(),
                  "\ntied_head=", m.tied_head, "\nrope_theta=", Exact(m.rope_theta));
  if (m.kind != "moe") return text;
  absl::StrAppend(&text, "\nexperts=", m.experts, "\ncapacity_factor=", Exact(m.capacity_factor),
                  "\nbalance_loss=", Exact(m.balance_loss));
  if (m.expert_parallel > 1) absl::StrAppend(&text, "\nexpert_parallel=", m.expert_parallel);
  return text;
}

}  // namespace

namespace {

// What DiLoCo has not; of that, nothing.
std::string OuterText(const TrainSpec& spec) {
  const OuterSpec& outer = spec.outer;
  std::string text;
  if (!outer.steady() || outer.rate_warmup() != 0) {
    absl::StrAppend(&text, "\nouter_lr_schedule=", outer.steady() ? "constant" : outer.lr_schedule,
                    "\nouter_lr_warmup_rounds=", outer.rate_warmup());
  }
  if (outer.algorithm == "diloco") return text;
  const std::optional<PythonClass> own = PythonClassOf(outer.algorithm);
  // Where its file lies does not matter.
  absl::StrAppend(
      &text, "\nouter_algorithm=",
      own ? absl::StrCat("python:", spec.outer_source, ":", own->name) : outer.algorithm);
  if (outer.warmup() != 0) absl::StrAppend(&text, "\nouter_warmup=", outer.warmup());
  if (outer.mean == "senders") absl::StrAppend(&text, "\nouter_mean=", outer.mean);
  if (outer.cluster_groups) {
    absl::StrAppend(&text, "\nouter_cluster=", *outer.cluster_groups,
                    "\nouter_global_every=", outer.global_every.value_or(0),
                    "\nouter_global_codec=", outer.global_codec);
  }
  if (!FindOuterRule(outer.algorithm)->overlaps) return text;
  return absl::StrCat(text, "\nouter_fragments=", outer.parts(),
                      "\nouter_overlap=", outer.overlap(), "\nouter_mix=", Exact(outer.kept()));
}

// Whose gradients are of older weights; "": of no stage.
std::string StalenessText(const TrainSpec& spec) {
  if (spec.program) return "";
  const absl::StatusOr<PipelineProgram> program = ProgramOf(spec);
  if (!program.ok() || program->flushes()) return "";
  return absl::StrCat("\nahead=", absl::StrJoin(program->ahead, ","));
}

// Who holds which stage decides what boundary channels remember; "": every stage has its own rank.
std::string PlacementText(const TrainSpec& spec) {
  if (spec.chunks == 1 && !spec.program) return "";
  return absl::StrCat("\nrank_of_stage=", absl::StrJoin(RanksOfStages(spec), ","));
}

}  // namespace

std::string CanonicalText(const TrainSpec& spec, const Corpus& corpus) {
  const ModelSpec& m = spec.model;
  const AdamWSpec& a = spec.inner;
  const OuterSpec& o = spec.outer;
  const std::string inner = InnerOptimizerOf(a.optimizer, o.algorithm);
  const int64_t decay_steps = DecaySteps(a, spec.steps);
  return absl::StrCat(
      "blocks=", m.blocks, "\nwidth=", m.width, "\nheads=", m.heads, "\ncontext=", m.context,
      "\nvocab=", m.vocab, ModelText(spec), "\nstages=", spec.stages,
      spec.cuts.empty() ? "" : absl::StrCat("\ncuts=", absl::StrJoin(spec.cuts, ",")),
      PlacementText(spec), StalenessText(spec), spec.mask_gradients ? "\nmask_gradients=true" : "",
      // It follows from the seed, and whoever goes on in it needs the same.
      spec.subspace == 0 ? "" : absl::StrCat("\nsubspace=", spec.subspace, " of seed ", spec.seed),
      spec.sample_boundaries.empty()
          ? ""
          : absl::StrCat("\nsample_boundaries=", absl::StrJoin(spec.sample_boundaries, ",")),
      "\ngroups=", spec.groups, "\nmicrobatches=", spec.microbatches,
      "\nbatch_rows=", spec.batch_rows, "\nsteps=", spec.steps, "\nlr=", Exact(a.lr),
      "\nmin_lr_fraction=", Exact(a.min_lr_fraction), "\nwarmup_steps=", a.warmup_steps.value_or(0),
      decay_steps == 0 ? "" : absl::StrCat("\ndecay_steps=", decay_steps),
      "\nbeta1=", Exact(a.beta1), "\nbeta2=", Exact(a.beta2), "\neps=", Exact(a.eps),
      "\nweight_decay=", Exact(a.weight_decay), "\nclip_norm=", Exact(a.clip_norm),
      inner == "adamw" ? "" : absl::StrCat("\noptimizer=", inner), "\ninner_steps=", o.inner_steps,
      "\nouter_lr=", Exact(o.lr), "\nouter_momentum=", Exact(o.momentum), "\nouter_codec=", o.codec,
      OuterText(spec),
      spec.initial_hash.empty() ? "" : absl::StrCat("\ninit_sha256=", spec.initial_hash),
      "\nseed=", spec.seed, "\ntrain_sha256=", corpus.train_hash(), "\n");
}

std::string FirstDifference(const std::string& a, const std::string& b) {
  const std::vector<std::string> left = absl::StrSplit(a, '\n'), right = absl::StrSplit(b, '\n');
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string l = i < left.size() ? left[i] : "", r = i < right.size() ? right[i] : "";
    if (l != r) return absl::StrCat("'", l, "' against '", r, "'");
  }
  return "none";
}

}  // namespace longhaul
