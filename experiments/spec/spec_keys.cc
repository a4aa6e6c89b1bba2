#include "experiments/spec/spec_keys.h"

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/boundary_cuts.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/compute_table.h"
#include "experiments/spec/program_table.h"
#include "experiments/spec/round_plan.h"
#include "experiments/spec/spec.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

constexpr bool kMust = true, kMay = false;
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr int64_t kMany = 1'000'000'000;
// Figures of the optimizers become float32: what it carries with digits to spare.
constexpr double kTiny = 1e-30, kHuge = 1e30, kOff = std::numeric_limits<double>::infinity();
constexpr double kBelowOne = 0.999999;
constexpr size_t kPathBytes = 1024, kNameBytes = 64;
constexpr Known kCodec{&SpecNames::codec}, kProfile{&SpecNames::profile},
    kSchedule{&SpecNames::schedule};

// The field of a spec that a key fills.
#define FIELD(name) [](RunSpec& s) { return &s.name; }

const SpecKey kKeys[] = {
    {"", "seed", kMust, Whole{0, kAny}, "", FIELD(seed)},

    {"model", "kind", kMust, OneOf{{"gpt", "llama", "moe"}}, "", FIELD(model.kind)},
    {"model", "blocks", kMust, Whole{1, 1024}, "", FIELD(model.blocks)},
    {"model", "width", kMust, Whole{1, 65536}, "", FIELD(model.width)},
    {"model", "heads", kMust, Whole{1, 1024}, "", FIELD(model.heads)},
    {"model", "context", kMust, Whole{1, 1 << 20}, "tokens", FIELD(model.context)},
    {"model", "vocab", kMust, Whole{2, 1 << 22}, "ids", FIELD(model.vocab)},
    {"model", "engine", kMay, OneOf{{"auto", "cpu", "aten"}}, "", FIELD(model.engine)},
    {"model", "kv_heads", kMay, Whole{0, 1024}, "", FIELD(model.kv_heads)},
    {"model", "hidden", kMay, Whole{0, 1 << 20}, "", FIELD(model.hidden)},
    {"model", "tied_head", kMay, Flag{}, "", FIELD(model.tied_head)},
    {"model", "rope_theta", kMay, Real{1.001, 1e12}, "", FIELD(model.rope_theta)},
    {"model", "experts", kMay, Whole{2, 1024}, "", FIELD(model.experts)},
    {"model", "capacity_factor", kMay, Real{0, 1024}, "", FIELD(model.capacity_factor)},
    {"model", "balance_loss", kMay, Real{0, 1024}, "", FIELD(model.balance_loss)},
    {"model", "expert_parallel", kMay, Whole{1, kMaxRanks}, "ranks", FIELD(model.expert_parallel)},
    {"model", "init", kMay, Line{kPathBytes}, "", FIELD(model.init), Names::kWeights},
    {"model", "save", kMay, Line{kPathBytes}, "", FIELD(model.save), Names::kOutput},

    {"data", "source", kMust, Line{kPathBytes}, "", FIELD(data.source), Names::kCorpus},
    {"data", "eval", kMay, Line{kPathBytes}, "", FIELD(data.eval), Names::kCorpus},

    {"train", "tokens", kMay, Whole{1, kMaxTokens}, "tokens", FIELD(train.tokens)},
    {"train", "steps", kMay, Whole{1, kMany}, "steps", FIELD(train.steps)},
    {"train", "batch_rows", kMust, Whole{1, 1 << 20}, "rows", FIELD(train.batch_rows)},
    {"train", "microbatches", kMust, Whole{1, 65536}, "", FIELD(train.microbatches)},
    {"train", "lr", kMust, Real{kTiny, kHuge}, "", FIELD(train.lr)},
    {"train", "schedule", kMay, OneOf{{"cosine", "wsd"}}, "", FIELD(train.schedule)},
    {"train", "decay_share", kMay, Real{kTiny, 1}, "", FIELD(train.decay_share)},
    {"train", "min_lr_fraction", kMay, Real{0, 1}, "", FIELD(train.min_lr_fraction)},
    {"train", "warmup_steps", kMay, Whole{0, kMany}, "steps", FIELD(train.warmup_steps)},
    {"train", "optimizer", kMay, OneOf{InnerOptimizerNames()}, "", FIELD(train.optimizer)},
    {"train", "beta1", kMay, Real{0, kBelowOne}, "", FIELD(train.beta1)},
    {"train", "beta2", kMay, Real{0, kBelowOne}, "", FIELD(train.beta2)},
    {"train", "eps", kMay, Real{kTiny, 1}, "", FIELD(train.eps)},
    {"train", "weight_decay", kMay, Real{0, kHuge}, "", FIELD(train.weight_decay)},
    {"train", "clip_norm", kMay, Real{kTiny, kOff}, "(inf: off)", FIELD(train.clip_norm)},
    {"train", "device", kMay, Line{kNameBytes}, "", FIELD(train.device)},
    {"train", "dtype", kMay, OneOf{{"float32", "bfloat16"}}, "", FIELD(train.dtype)},
    {"train", "recompute", kMay, Flag{}, "", FIELD(train.recompute)},
    {"train", "attention", kMay, OneOf{{"math", "fused"}}, "", FIELD(train.attention)},
    {"train", "hash_every", kMay, Whole{0, kMany}, "steps", FIELD(train.hash_every)},

    {"schedule", "kind", kMust, kSchedule, "", FIELD(schedule.kind)},
    {"schedule", "stages", kMust, Whole{1, kMaxRanks}, "", FIELD(schedule.stages)},
    {"schedule", "chunks", kMay, Whole{1, 64}, "stages of a rank", FIELD(schedule.chunks)},
    {"schedule", "depth", kMay, Whole{0, 65536}, "micro-batches", FIELD(schedule.depth)},
    {"schedule", "csv", kMay, Line{kPathBytes}, "", FIELD(schedule.csv), Names::kProgram},
    {"schedule", "cuts", kMay, Wholes{1, 1023, kMaxRanks - 1}, "", FIELD(schedule.cuts)},

    {"boundary", "forward", kMust, kCodec, "", FIELD(boundary.forward)},
    {"boundary", "backward", kMust, kCodec, "", FIELD(boundary.backward)},
    {"boundary", "nmse_every", kMay, Whole{0, 1'000'000}, "frames", FIELD(boundary.nmse_every)},
    {"boundary", "mask_gradients", kMay, Flag{}, "", FIELD(boundary.mask_gradients)},
    {"boundary", "subspace", kMay, Whole{1, 65536}, "dimensions", FIELD(boundary.subspace)},
    {"boundary", "warmup_steps", kMay, Whole{0, kMany - 1}, "steps", FIELD(boundary.warmup_steps)},
    {"boundary", "capture", kMay, Line{kPathBytes}, "", FIELD(boundary.capture), Names::kOutput},

    {"outer", "groups", kMay, Whole{1, kMaxRanks}, "", FIELD(outer.groups)},
    {"outer", "algorithm", kMay, OneOf{OuterNames()}, "", FIELD(outer.algorithm)},
    {"outer", "inner_steps", kMay, Whole{0, kMany}, "steps", FIELD(outer.inner_steps)},
    {"outer", "lr", kMay, Real{kTiny, kHuge}, "", FIELD(outer.lr)},
    {"outer", "momentum", kMay, Real{0, kBelowOne}, "", FIELD(outer.momentum)},
    {"outer", "codec", kMay, kCodec, "", FIELD(outer.codec)},
    {"outer", "fragments", kMay, Whole{1, 1024}, "", FIELD(outer.fragments)},
    {"outer", "overlap_steps", kMay, Whole{0, kMany}, "steps", FIELD(outer.overlap_steps)},
    {"outer", "mix", kMay, Real{0, 1}, "of local parameters", FIELD(outer.mix)},
    {"outer", "mean", kMay, OneOf{{"all", "senders"}}, "", FIELD(outer.mean)},
    {"outer", "cluster_groups", kMay, Whole{1, kMaxRanks}, "groups", FIELD(outer.cluster_groups)},
    {"outer", "global_every", kMay, Whole{1, kMany}, "rounds", FIELD(outer.global_every)},
    {"outer", "global_codec", kMay, kCodec, "", FIELD(outer.global_codec)},
    {"outer", "warmup_steps", kMay, Whole{0, kMany}, "steps", FIELD(outer.warmup_steps)},
    {"outer", "lr_schedule", kMay, OneOf{{"constant", "linear", "cosine"}}, "",
     FIELD(outer.lr_schedule)},
    {"outer", "lr_warmup_rounds", kMay, Whole{0, kMany}, "rounds", FIELD(outer.lr_warmup_rounds)},
    {"outer", "on_group_loss", kMay, OneOf{{"end", "continue"}}, "", FIELD(outer.on_group_loss)},
    {"outer", "round_deadline_s", kMay, Real{0.1, 86'400}, "s", FIELD(outer.round_deadline_s)},
    {"outer", "joiner_source", kMay, OneOf{{"member", "swarm"}}, "", FIELD(outer.joiner_source)},
    {"outer", "joiner_up_mbit", kMay, Real{0.3, kOff}, "Mbit/s (inf: no limit)",
     FIELD(outer.joiner_up_mbit)},
    {"outer", "min_groups", kMay, Whole{1, kMaxRanks}, "", FIELD(outer.min_groups)},

    {"net", "transport", kMust, OneOf{{"loopback", "ucx"}}, "", FIELD(net.transport)},
    {"net", "profile", kMay, kProfile, "", FIELD(net.profile), Names::kLinks},
    {"net", "emulator", kMay, OneOf{{"auto", "netem", "tap"}}, "", FIELD(net.emulator)},
    {"net", "congestion_control", kMay, Line{kNameBytes}, "", FIELD(net.congestion_control)},
    {"net", "slow_start_after_idle", kMay, Flag{}, "", FIELD(net.slow_start_after_idle)},
    {"net", "clock", kMay, OneOf{{"simulated"}}, "", FIELD(net.clock)},
    {"net", "peer_deadline_s", kMay, Real{0.1, 86'400}, "s", FIELD(net.peer_deadline_s)},
    {"net", "out_of_bounds", kMay, OneOf{{"stop", "flag"}}, "", FIELD(net.out_of_bounds)},

    {"eval", "rows", kMust, Whole{1, kMany}, "rows", FIELD(eval.rows)},

    {"checkpoint", "every_steps", kMay, Whole{0, kMany}, "steps", FIELD(checkpoint.every_steps)},
    {"checkpoint", "keep", kMay, Whole{2, 1'000'000}, "", FIELD(checkpoint.keep)},
    {"checkpoint", "from", kMay, Line{kPathBytes}, "", FIELD(checkpoint.from), Names::kCheckpoints},

    {"limits", "threads", kMay, Whole{1, 256}, "per worker", FIELD(limits.threads)},
};

#undef FIELD

}  // namespace

std::string SpecKey::path() const {
  return table.empty() ? std::string(name) : std::string(table) + "." + std::string(name);
}

std::span<const SpecKey> SpecKeys() { return kKeys; }

std::vector<std::string_view> SpecTables() {
  std::vector<std::string_view> tables;
  for (const SpecKey& key : kKeys) {
    if (!key.table.empty() && (tables.empty() || tables.back() != key.table)) {
      tables.push_back(key.table);
    }
  }
  return tables;
}

namespace {

std::string Text(bool v) { return fmt::format("{}", v); }
std::string Text(int64_t v) { return fmt::format("{}", v); }
std::string Text(double v) { return TomlNumber(v); }
// A list that is empty was not given.
std::string Text(const std::vector<int64_t>& v) {
  return v.empty() ? "" : fmt::format("[{}]", fmt::join(v, ", "));
}
// No key takes an empty text, so an empty one was not given.
std::string Text(const std::string& v) { return v.empty() ? "" : TomlQuote(v); }
template <typename T>
std::string Text(const std::optional<T>& v) {
  return v ? Text(*v) : "";
}

}  // namespace

std::string TextOf(const SpecKey& key, const RunSpec& spec) {
  // A key's field is found in a spec that may be written; this one is only read.
  auto& readable = const_cast<RunSpec&>(spec);
  return std::visit([&](auto get) { return Text(*get(readable)); }, key.field);
}

std::string ToToml(const RunSpec& spec) {
  if (spec.program) return ProgramToml(spec);
  std::string text;
  std::string_view table;
  for (const SpecKey& key : SpecKeys()) {
    if (key.table != table) {
      if (table == "boundary") text += BoundaryCutsText(spec) + BoundaryPolicyText(spec);
      if (table == "outer") text += GroupScheduleText(spec);
      text += fmt::format("\n[{}]\n", table = key.table);
    }
    const std::string value = TextOf(key, spec);
    if (!value.empty()) text += fmt::format("{} = {}\n", key.name, value);
  }
  return text + ComputeTableText(spec) + FaultsText(spec.faults);
}

}  // namespace longhaul
