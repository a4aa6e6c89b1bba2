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

absl::Status CheckOptimizers(const TrainSpec& spec) {
  const AdamWSpec& inner = spec.inner;
  if (!(inner.lr > 0) || !std::isfinite(inner.lr)) return Bad("inner lr ", inner.lr);
  if (!(inner.min_lr_fraction >= 0 && inner.min_lr_fraction <= 1)) {
    return Bad("min_lr_fraction ", inner.min_lr_fraction, ", want 0 to 1");
  }
  if (inner.warmup_steps < 0 || inner.warmup_steps > spec.steps) {
    return Bad("warmup_steps ", inner.warmup_steps, " of ", spec.steps, " steps");
  }
  if (inner.decay_steps < 0 || inner.decay_steps > spec.steps - inner.warmup_steps) {
    return Bad("decay_steps ", inner.decay_steps, " behind ", inner.warmup_steps, " of warm-up in ",
               spec.steps, " steps");
  }
  for (double beta : {inner.beta1, inner.beta2}) {
    if (!(beta >= 0 && beta < 1)) return Bad("AdamW beta ", beta, ", want [0, 1)");
  }
  if (!(inner.eps > 0) || !(inner.weight_decay >= 0) || !(inner.clip_norm > 0)) {
    return Bad("eps ", inner.eps, ", weight_decay ", inner.weight_decay, ", clip_norm ",
               inner.clip_norm, ": want positive, non-negative, positive");
  }
  const std::vector<std::string_view> optimizers = InnerOptimizerNames();
  if (std::find(optimizers.begin(), optimizers.end(), inner.optimizer) == optimizers.end()) {
    return Bad("inner optimizer '", inner.optimizer, "' is not known");
  }
  if (spec.outer.inner_steps < 0) return Bad("outer inner_steps ", spec.outer.inner_steps);
  if (absl::Status s = CheckOuterFigures(spec.outer, spec.model.blocks, spec.groups); !s.ok()) {
    return Bad(std::string(s.message()));
  }
  const bool moment = FindOuterRule(spec.outer.algorithm)->sends == OuterRule::Sends::kMoment;
  if (moment != (inner.optimizer == "onebit-adam")) {
    return Bad("inner optimizer '", inner.optimizer, "' with the outer algorithm '",
               spec.outer.algorithm, "': 'onebit-adam' wants the other to be that, too");
  }
  if (spec.outer.warmup < 0 || spec.outer.warmup > spec.steps) {
    return Bad("outer warmup_steps ", spec.outer.warmup, " of ", spec.steps, " steps");
  }
  const OuterPlan plan(spec.outer, spec.steps);
  if (plan.exchanges() && spec.outer.lr_warmup_rounds > plan.rounds()) {
    return Bad("outer lr_warmup_rounds ", spec.outer.lr_warmup_rounds, " of ", plan.rounds(),
               " rounds");
  }
  if (plan.gradients() && spec.outer.inner_steps != 0) {
    return Bad("outer inner_steps ", spec.outer.inner_steps,
               ": data parallel groups meet in every step, want 0");
  }
  if (!plan.meets() && spec.groups != 1) {
    return Bad(spec.groups, " groups without an outer step never meet: set outer inner_steps");
  }
  if (!(spec.outer.momentum >= 0 && spec.outer.momentum < 1) || !std::isfinite(spec.outer.lr)) {
    return Bad("outer lr ", spec.outer.lr, ", momentum ", spec.outer.momentum);
  }
  const absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeCodec(spec.outer.codec);
  return codec.ok() ? CheckOuterCodec(**codec) : codec.status();
}

absl::Status CheckCuts(const TrainSpec& spec) {
  if (spec.cuts.empty()) {
    if (spec.model.blocks % spec.stages == 0) return absl::OkStatus();
    return Bad(spec.stages, " stages do not divide ", spec.model.blocks, " blocks");
  }
  bool ascending = static_cast<int64_t>(spec.cuts.size()) == spec.stages - 1;
  int64_t before = 0;
  for (const int64_t cut : spec.cuts) {
    ascending = ascending && cut > before && cut < spec.model.blocks;
    before = cut;
  }
  if (ascending) return absl::OkStatus();
  return Bad("cuts [", absl::StrJoin(spec.cuts, ", "), "], want ", spec.stages - 1,
             " ascending numbers from 1 to ", spec.model.blocks - 1);
}

absl::Status CheckCompute(const TrainSpec& spec) {
  if (!spec.compute) return absl::OkStatus();
  const InjectedCompute& c = *spec.compute;
  const size_t stages = static_cast<size_t>(spec.stages);
  if (c.forward.size() != stages || c.backward.size() != stages) {
    return Bad("injected compute of ", c.forward.size(), " forward and ", c.backward.size(),
               " backward stages, want ", stages);
  }
  std::vector<absl::Duration> all = c.forward;
  all.insert(all.end(), c.backward.begin(), c.backward.end());
  all.push_back(c.optimizer);
  for (const absl::Duration d : all) {
    if (!(d >= absl::ZeroDuration()) || d == absl::InfiniteDuration()) {
      return Bad("injected compute of ", absl::FormatDuration(d), ", want 0 or more, finite");
    }
  }
  return c.sleep ? absl::OkStatus() : Bad("injected compute without a sleep");
}

// The ranks over which experts are spread are the peers of one stage, which hold equal parameters
// otherwise, step for step.
absl::Status CheckExperts(const TrainSpec& spec) {
  const ModelSpec& model = spec.model;
  const int64_t ranks = model.expert_parallel;
  if (ranks == 1) return absl::OkStatus();
  if (ranks < 1) return Bad("expert_parallel ", ranks, ", want 1 or more");
  if (model.kind != "moe") {
    return Bad("expert_parallel ", ranks, ": kind '", model.kind, "' has no experts; want 1");
  }
  if (model.experts % ranks != 0) {
    return Bad("expert_parallel ", ranks, " does not divide ", model.experts, " experts");
  }
  if (spec.outer.algorithm != "dp") {
    return Bad("expert_parallel ", ranks,
               ": DiLoCo's groups differ between their meetings; want data parallel groups");
  }
  if (ranks != spec.groups) {
    return Bad("expert_parallel ", ranks, " with ", spec.groups,
               " groups: experts are spread over all groups or none; want 1 or ", spec.groups);
  }
  if (spec.compute) {
    return Bad("expert_parallel ", ranks, ": injected compute routes no tokens; want 1");
  }
  return absl::OkStatus();
}

absl::Status CheckSubspace(const TrainSpec& spec) {
  if (spec.subspace == 0) return absl::OkStatus();
  if (spec.compute) return Bad("a subspace with injected compute: nothing is trained in it");
  if (spec.initial) {
    return Bad("a subspace with weights to start from, which do not lie in it; want the seed's");
  }
  const absl::Status s = CheckSubspace(spec.model, spec.stage_compute, spec.subspace);
  return s.ok() ? s : Bad(std::string(s.message()));
}

// A channel remembers one sample, which must be whole in a message.
absl::Status CheckSamples(const TrainSpec& spec, const PipelineProgram& program,
                          const Corpus& corpus) {
  if (spec.sample_boundaries.empty()) return absl::OkStatus();
  if (spec.batch_rows != spec.microbatches) {
    return Bad("a boundary's codec remembers samples, so a micro-batch must be one row: ",
               spec.microbatches, " micro-batches of ", spec.batch_rows, " rows, want ",
               spec.batch_rows);
  }
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
  if (spec.stages < 1 || spec.groups < 1 || spec.microbatches < 1 || spec.batch_rows < 1 ||
      spec.steps < 1) {
    return Bad("stages ", spec.stages, ", groups ", spec.groups, ", microbatches ",
               spec.microbatches, ", batch_rows ", spec.batch_rows, ", steps ", spec.steps,
               ": want 1 or more of each");
  }
  if (absl::Status s = CheckModel(spec.model, spec.stage_compute); !s.ok()) return s;
  if (absl::Status status = CheckData(spec.model, corpus); !status.ok()) return status;
  if (absl::Status status = CheckCuts(spec); !status.ok()) return status;
  if (absl::Status status = CheckCompute(spec); !status.ok()) return status;
  if (absl::Status status = CheckExperts(spec); !status.ok()) return status;
  if (absl::Status status = CheckSubspace(spec); !status.ok()) return status;
  if (spec.batch_rows % spec.microbatches != 0) {
    return Bad(spec.microbatches, " micro-batches do not divide ", spec.batch_rows, " rows");
  }
  const absl::StatusOr<PipelineProgram> program = ProgramOf(spec);
  if (!program.ok()) return program.status();
  if (absl::Status s = CheckSamples(spec, *program, corpus); !s.ok()) return s;
  return CheckOptimizers(spec);
}

int64_t SampleChannels(const PipelineProgram& program, int64_t windows) {
  const int stages = program.num_stages();
  return stages > program.num_ranks() ? windows * stages : windows;
}

absl::StatusOr<PipelineProgram> ProgramOf(const TrainSpec& spec) {
  if (spec.chunks < 1 || spec.stages % spec.chunks != 0) {
    return Bad(spec.chunks, " chunks (stages of a rank) do not divide ", spec.stages, " stages");
  }
  PipelineProgram program;
  if (spec.program) {
    program = *spec.program;
    if (program.num_stages() != spec.stages || program.microbatches != spec.microbatches ||
        program.num_ranks() * spec.chunks != spec.stages) {
      return Bad("a program of ", program.num_stages(), " stages on ", program.num_ranks(),
                 " ranks and ", program.microbatches, " micro-batches, want ", spec.stages, " on ",
                 spec.stages / spec.chunks, " and ", spec.microbatches);
    }
    for (int rank = 0; rank < program.num_ranks(); ++rank) {
      const size_t held = program.StagesOf(rank).size();
      if (held == static_cast<size_t>(spec.chunks)) continue;
      return Bad("a program whose rank ", rank, " holds ", held, " stages, want ", spec.chunks);
    }
  } else {
    const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule);
    if (!schedule.ok()) return schedule.status();
    const PipelineShape shape{.ranks = spec.stages / spec.chunks,
                              .chunks = spec.chunks,
                              .microbatches = static_cast<int>(spec.microbatches),
                              .depth = spec.depth};
    if (absl::Status status = CheckShape(*schedule, shape); !status.ok()) return status;
    program = ProgramOf(*schedule, shape);
  }
  if (absl::Status status = CheckProgram(program); !status.ok()) return status;
  if (absl::Status status = CheckMicrobatchOrder(program); !status.ok()) return status;
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
std::string OuterText(const OuterSpec& outer) {
  std::string text;
  const OuterSpec none{.inner_steps = 0};
  if (outer.lr_schedule != none.lr_schedule || outer.lr_warmup_rounds != 0) {
    absl::StrAppend(&text, "\nouter_lr_schedule=", outer.lr_schedule,
                    "\nouter_lr_warmup_rounds=", outer.lr_warmup_rounds);
  }
  if (outer.algorithm == "diloco") return text;
  absl::StrAppend(&text, "\nouter_algorithm=", outer.algorithm);
  if (outer.warmup != 0) absl::StrAppend(&text, "\nouter_warmup=", outer.warmup);
  if (outer.mean != none.mean) absl::StrAppend(&text, "\nouter_mean=", outer.mean);
  if (outer.cluster != 0) {
    absl::StrAppend(&text, "\nouter_cluster=", outer.cluster,
                    "\nouter_global_every=", outer.global_every,
                    "\nouter_global_codec=", outer.global_codec);
  }
  if (!FindOuterRule(outer.algorithm)->overlaps) return text;
  return absl::StrCat(text, "\nouter_fragments=", outer.fragments,
                      "\nouter_overlap=", outer.overlap, "\nouter_mix=", Exact(outer.mix));
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
  return absl::StrCat(
      "blocks=", m.blocks, "\nwidth=", m.width, "\nheads=", m.heads, "\ncontext=", m.context,
      "\nvocab=", m.vocab, ModelText(spec), "\nstages=", spec.stages,
      spec.cuts.empty() ? "" : absl::StrCat("\ncuts=", absl::StrJoin(spec.cuts, ",")),
      PlacementText(spec), spec.mask_gradients ? "\nmask_gradients=true" : "",
      // It follows from the seed, and whoever goes on in it needs the same.
      spec.subspace == 0 ? "" : absl::StrCat("\nsubspace=", spec.subspace, " of seed ", spec.seed),
      spec.sample_boundaries.empty()
          ? ""
          : absl::StrCat("\nsample_boundaries=", absl::StrJoin(spec.sample_boundaries, ",")),
      "\ngroups=", spec.groups, "\nmicrobatches=", spec.microbatches,
      "\nbatch_rows=", spec.batch_rows, "\nsteps=", spec.steps, "\nlr=", Exact(a.lr),
      "\nmin_lr_fraction=", Exact(a.min_lr_fraction), "\nwarmup_steps=", a.warmup_steps,
      a.decay_steps == 0 ? "" : absl::StrCat("\ndecay_steps=", a.decay_steps),
      "\nbeta1=", Exact(a.beta1), "\nbeta2=", Exact(a.beta2), "\neps=", Exact(a.eps),
      "\nweight_decay=", Exact(a.weight_decay), "\nclip_norm=", Exact(a.clip_norm),
      a.optimizer == "adamw" ? "" : absl::StrCat("\noptimizer=", a.optimizer),
      "\ninner_steps=", o.inner_steps, "\nouter_lr=", Exact(o.lr),
      "\nouter_momentum=", Exact(o.momentum), "\nouter_codec=", o.codec, OuterText(o),
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
