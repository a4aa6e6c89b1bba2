#include "experiments/spec/spec_keys.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/boundary_cuts.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/compute_table.h"
#include "experiments/spec/fault_script.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/program_table.h"
#include "experiments/spec/round_plan.h"
#include "netem/topology/table_reader.h"
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

bool InnerIsOneOf(const RunSpec& spec, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(),
                   InnerOptimizerOf(spec.train.optimizer, spec.outer.algorithm)) != names.end();
}
const OuterRule& RuleOf(const RunSpec& spec) { return *FindOuterRule(spec.outer.algorithm); }

// Where a key is idle.
bool WithoutMoments(const RunSpec& spec) { return InnerIsOneOf(spec, {"plain-sgd", "sign-sgd"}); }
bool WithoutSecondMoment(const RunSpec& spec) {
  return InnerIsOneOf(spec, {"sgd", "plain-sgd", "sign-sgd"});
}
// "dgc" clips what each group sends.
bool Unclipped(const RunSpec& spec) {
  return WithoutMoments(spec) && RuleOf(spec).sends != OuterRule::Sends::kClipped;
}
bool WithoutDecay(const RunSpec& spec) { return spec.train.schedule != "wsd"; }
bool NotDeep(const RunSpec& spec) { return spec.schedule.kind != "1f1b-deep"; }
bool SendsActivationsWhole(const RunSpec& spec) { return CodecText(spec).forward == "none"; }
bool TakesNoOuterStep(const RunSpec& spec) { return ExchangesGradients(spec.outer.algorithm); }
bool MeansOverAll(const RunSpec& spec) {
  return spec.outer.mean == "senders" && RuleOf(spec).crosses != OuterRule::Crosses::kDeltas;
}
bool WarmsUpNothing(const RunSpec& spec) {
  const OuterRule& rule = RuleOf(spec);
  return spec.outer.warmup_steps.value_or(0) > 0 && spec.outer.codec == "none" &&
         rule.sends != OuterRule::Sends::kMoment && !rule.density_falls;
}
bool EndsWithAGroup(const RunSpec& spec) { return spec.outer.on_group_loss == "end"; }
bool WithoutCheckpoints(const RunSpec& spec) { return spec.checkpoint.every_steps == 0; }

// Table, name and field of a key, which is called as its field is.
#define KEY(table, name) #table, #name, [](RunSpec & s) { return &s.table.name; }

const SpecKey kKeys[] = {
    {"", "seed", [](RunSpec& s) { return &s.seed; }, kMust, Whole{0, kAny}, "",
     "Seed of initial weights, data order and codec noise", Change::kPaired, InProgram{kMust}},

    {KEY(model, kind), kMust, OneOf{{"gpt", "llama", "moe"}}, "",
     "Architecture of the decoder-only model"},
    {KEY(model, blocks), kMust, Whole{1, 1024}, "",
     "Number of transformer blocks; schedule.stages divides it unless schedule.cuts is given"},
    {KEY(model, width), kMust, Whole{1, 65536}, "",
     "Width of the residual stream; model.heads divides it"},
    {KEY(model, heads), kMust, Whole{1, 1024}, "", "Number of attention heads"},
    {KEY(model, context), kMust, Whole{1, 1 << 20}, "tokens", "Length of a training row"},
    {KEY(model, vocab), kMust, Whole{2, 1 << 22}, "ids", "Number of token ids; 256 for bytes"},
    {KEY(model, engine), kMay, OneOf{{"auto", "cpu", "aten"}}, "",
     "Implementation of the stages: cpu (float32 on the CPU), aten (LibTorch), or auto, the "
     "first that supports the model, device and dtype"},
    {KEY(model, kv_heads), kMay, Whole{0, 1024}, "",
     "Number of key and value heads of llama and moe; 0: as many as model.heads"},
    {KEY(model, hidden), kMay, Whole{0, 1 << 20}, "",
     "Hidden width of a SwiGLU of llama and moe; 0: 8/3 of model.width, rounded up to a "
     "multiple of 64"},
    {KEY(model, tied_head), kMay, Flag{}, "",
     "Use the embedding matrix of llama and moe as the output head, too"},
    {KEY(model, rope_theta), kMay, Real{1.001, 1e12}, "",
     "Base of the rotary position embedding of llama and moe"},
    {KEY(model, experts), kMay, Whole{2, 1024}, "",
     "Number of experts per block of moe; each token is routed to two"},
    {KEY(model, capacity_factor), kMay, Real{0, 1024}, "",
     "Most tokens that an expert of moe accepts, as a multiple of its even share of a micro-"
     "batch; 0: no limit"},
    {KEY(model, balance_loss), kMay, Real{0, 1024}, "", "Weight of the load-balancing loss of moe"},
    {KEY(model, expert_parallel), kMay, Whole{1, kMaxRanks}, "ranks",
     "Number of ranks over which the experts of each block are spread: 1, or outer.groups with"
     " outer.algorithm = \"dp\""},
    {KEY(model, init), kMay, Line{kPathBytes}, "",
     "Safetensors file or index with the initial weights; not given: weights are drawn from "
     "the seed",
     Names::kWeights},
    {KEY(model, save), kMay, Line{kPathBytes}, "",
     "Folder that receives the weights of the finished run", Names::kOutput},

    {KEY(data, source), kMust, Line{kPathBytes}, "",
     "Training data: headers (built in), text:PATH, tokens:PATH (uint16 ids) or tokens32:PATH "
     "(uint32 ids); PATH is a comma-separated list of files and patterns with * and ?",
     Names::kCorpus},
    {KEY(data, eval), kMay, Line{kPathBytes}, "",
     "Evaluation data, in the form of data.source; not given: the held-out part of data.source",
     Names::kCorpus},

    {KEY(train, tokens), kMay, Whole{1, kMaxTokens}, "tokens",
     "Length of the run in tokens over all groups; exactly one of train.tokens and train.steps"
     " is given",
     InProgram{kMay}},
    {KEY(train, steps), kMay, Whole{1, kMany}, "steps", "Length of the run in inner steps"},
    {KEY(train, batch_rows), kMust, Whole{1, 1 << 20}, "rows",
     "Batch size: rows per group and inner step; train.microbatches divides it", Change::kOuter},
    {KEY(train, microbatches), kMust, Whole{1, 65536}, "", "Number of micro-batches per batch",
     Change::kOuter},
    {KEY(train, lr), kMust, Real{kTiny, kHuge}, "", "Peak learning rate of the inner optimizer"},
    {KEY(train, schedule), kMay, OneOf{{"cosine", "wsd"}}, "",
     "Learning rate after the warm-up: cosine (the default) over the whole run, or wsd (warm-"
     "up, stable, decay): constant, then a linear decay over the last steps"},
    {KEY(train, decay_share), kMay, Real{kTiny, 1}, "",
     "Share of all steps in which the learning rate of wsd decays; not given: 0.2",
     Idle{WithoutDecay, "it is of train.schedule = \"wsd\""}},
    {KEY(train, min_lr_fraction), kMay, Real{0, 1}, "",
     "Learning rate after the last step, as a fraction of the peak"},
    {KEY(train, warmup_steps), kMay, Whole{0, kMany}, "steps",
     "Steps in which the learning rate grows linearly to its peak; not given: 5 % of all "
     "steps, rounded up"},
    {KEY(train, optimizer), kMay, OneOf{InnerOptimizerNames()}, "",
     "Inner optimizer; not given: the one that outer.algorithm's paper uses", Change::kOuter},
    {KEY(train, beta1), kMay, Real{0, kBelowOne}, "", "Decay rate of the first moment",
     Idle{WithoutMoments, "the inner optimizer has no moment"}},
    {KEY(train, beta2), kMay, Real{0, kBelowOne}, "", "Decay rate of the second moment",
     Idle{WithoutSecondMoment, "the inner optimizer has no second moment"}},
    {KEY(train, eps), kMay, Real{kTiny, 1}, "", "Constant added to the root of the second moment",
     Idle{WithoutSecondMoment, "the inner optimizer has no second moment"}},
    {KEY(train, weight_decay), kMay, Real{0, kHuge}, "", "Decoupled weight decay of matrices"},
    {KEY(train, clip_norm), kMay, Real{kTiny, kOff}, "(inf: off)",
     "Largest gradient norm of the embeddings, of each block and of the head; larger gradients"
     " are scaled down",
     Idle{Unclipped, "the inner optimizer clips no gradient"}},
    {KEY(train, device), kMay, Line{kNameBytes}, "",
     "Device of the stages: cpu, cuda, cuda:N, or cuda:*, which gives the r-th worker of a "
     "machine the GPU r modulo the number of GPUs"},
    {KEY(train, dtype), kMay, OneOf{{"float32", "bfloat16"}}, "",
     "Number format of matrix products and boundary tensors"},
    {KEY(train, recompute), kMay, Flag{}, "",
     "Recompute the activations of a block in its backward pass"},
    {KEY(train, attention), kMay, OneOf{{"math", "fused"}}, "",
     "Attention kernel on a GPU: fused stores no probabilities; not given: fused for bfloat16 "
     "on a GPU, else math"},
    {KEY(train, hash_every), kMay, Whole{0, kMany}, "steps",
     "Steps between hashes of the parameters; 0 or not given: after outer steps, at "
     "checkpoints and after the last step"},

    {KEY(schedule, kind), kMust, kSchedule, "",
     "Pipeline schedule; csv reads the file schedule.csv"},
    {KEY(schedule, stages), kMust, Whole{1, kMaxRanks}, "", "Number of pipeline stages per group",
     Change::kBooked, InProgram{kMust}},
    {KEY(schedule, chunks), kMay, Whole{1, 64}, "stages of a rank",
     "Stages per rank of an interleaved schedule; it divides schedule.stages"},
    {KEY(schedule, depth), kMay, Whole{0, 65536}, "micro-batches",
     "Extra micro-batches in flight per boundary of the schedule 1f1b-deep",
     Idle{NotDeep, "it is of schedule.kind = \"1f1b-deep\""}},
    {KEY(schedule, csv), kMay, Line{kPathBytes}, "",
     "Schedule file in the CSV format of torch.distributed.pipelining, for schedule.kind = "
     "\"csv\"",
     Names::kProgram},
    {KEY(schedule, cuts), kMay, Wholes{1, 1023, kMaxRanks - 1}, "",
     "First block of every stage but the first, in ascending order; not given: equal stages",
     Change::kBooked},

    {KEY(boundary, forward), kMust, kCodec, "", "Codec of the activations", Change::kBooked,
     InProgram{kMay}},
    {KEY(boundary, backward), kMust, kCodec, "", "Codec of the activation gradients",
     Change::kBooked, InProgram{kMay}},
    {KEY(boundary, nmse_every), kMay, Whole{0, 1'000'000}, "frames",
     "Frames between two measurements of the codec's error (NMSE) at the sender; 0: never"},
    {KEY(boundary, mask_gradients), kMay, Flag{}, "",
     "Set the gradient to zero wherever the received activation is zero", Change::kBooked,
     Idle{SendsActivationsWhole, "activations cross as they are: boundary.forward is \"none\""}},
    {KEY(boundary, subspace), kMay, Whole{1, 65536}, "dimensions",
     "Dimensions of the subspace to which the residual stream is confined (arXiv 2506.01260); "
     "boundaries send coordinates in it; not given: no subspace"},
    {KEY(boundary, warmup_steps), kMay, Whole{0, kMany - 1}, "steps",
     "First steps in which boundary tensors are sent uncompressed; not given: 0", Change::kBooked},
    {KEY(boundary, capture), kMay, Line{kPathBytes}, "",
     "Folder that receives the boundary tensors of four steps", Names::kOutput},

    {KEY(outer, groups), kMay, Whole{1, kMaxRanks}, "", "Number of DiLoCo replicas", Change::kOuter,
     InProgram{kMay}},
    {KEY(outer, algorithm), kMay, OneOf{OuterNames(), /*or_python=*/true}, "",
     "Algorithm that synchronizes the groups: a name, or a class of a Python file", Change::kOuter,
     Names::kPython},
    {KEY(outer, inner_steps), kMay, Whole{0, kMany}, "steps",
     "Inner steps between two outer steps; 0: no outer step, for one group or an algorithm "
     "that averages gradients",
     Change::kOuter},
    {KEY(outer, lr), kMay, Real{kTiny, kHuge}, "",
     "Learning rate of the outer optimizer; not given: the value of the algorithm's paper",
     Change::kOuter, Idle{TakesNoOuterStep, "outer.algorithm takes no outer step"}},
    {KEY(outer, momentum), kMay, Real{0, kBelowOne}, "",
     "Nesterov momentum of the outer optimizer; not given: the value of the algorithm's paper",
     Change::kOuter, Idle{TakesNoOuterStep, "outer.algorithm takes no outer step"}},
    {KEY(outer, codec), kMay, kCodec, "",
     "Codec of the outer delta or the averaged gradients; required where groups synchronize "
     "and the algorithm has no codec of its own",
     Change::kOuter, InProgram{kMay}},
    {KEY(outer, fragments), kMay, Whole{1, 1024}, "",
     "Number of parameter fragments that are synchronized in turn, for algorithms that "
     "overlap; not given: 1",
     Change::kOuter},
    {KEY(outer, overlap_steps), kMay, Whole{0, kMany}, "steps",
     "Inner steps between sending a fragment and applying its average, for algorithms that "
     "overlap; not given: the algorithm's",
     Change::kOuter},
    {KEY(outer, mix), kMay, Real{0, 1}, "of local parameters",
     "Share of the local parameters that is kept when an average is applied, for algorithms "
     "that overlap; not given: the algorithm's",
     Change::kOuter},
    {KEY(outer, mean), kMay, OneOf{{"all", "senders"}}, "",
     "Groups over which an element is averaged: all (the default), or senders, the groups "
     "whose decoded value is not 0",
     Change::kOuter, Idle{MeansOverAll, "outer.algorithm sends no outer deltas"}},
    {KEY(outer, cluster_groups), kMay, Whole{1, kMaxRanks}, "groups",
     "Consecutive groups per cluster of the algorithm hierarchical", Change::kOuter},
    {KEY(outer, global_every), kMay, Whole{1, kMany}, "rounds",
     "Rounds between two synchronizations of the clusters of hierarchical", Change::kOuter},
    {KEY(outer, global_codec), kMay, kCodec, "",
     "Codec between the clusters of hierarchical; not given: outer.codec", Change::kOuter},
    {KEY(outer, warmup_steps), kMay, Whole{0, kMany}, "steps",
     "First steps in which gradients are sent uncompressed (dgc: at a falling density), for "
     "algorithms that average gradients; not given: 0",
     Change::kOuter, Idle{WarmsUpNothing, "gradients cross whole anyway: outer.codec is \"none\""}},
    {KEY(outer, lr_schedule), kMay, OneOf{{"constant", "linear", "cosine"}}, "",
     "Outer learning rate after its warm-up: constant (the default), or a linear or cosine "
     "decay to 0",
     Change::kOuter},
    {KEY(outer, lr_warmup_rounds), kMay, Whole{0, kMany}, "rounds",
     "Rounds in which the outer learning rate grows linearly to its peak; not given: 0",
     Change::kOuter},
    {KEY(outer, on_group_loss), kMay, OneOf{{"end", "continue"}}, "",
     "Effect of a lost group on the run: end ends it, continue lets the other groups train on"},
    {KEY(outer, round_deadline_s), kMay, Real{0.1, 86'400}, "s",
     "Longest wait for a slower group at an outer step, counted from the first group that "
     "arrives, for on_group_loss = \"continue\"",
     Idle{EndsWithAGroup, "it is of outer.on_group_loss = \"continue\""}},
    {KEY(outer, joiner_source), kMay, OneOf{{"member", "swarm"}}, "",
     "Sender of the state to a joining group: one member, or a swarm of all members"},
    {KEY(outer, joiner_up_mbit), kMay, Real{0.3, kOff}, "Mbit/s (inf: no limit)",
     "Upload limit per worker of a member toward joining groups, in payload, for a swarm"},
    {KEY(outer, min_groups), kMay, Whole{1, kMaxRanks}, "",
     "Fewest groups with which the run continues",
     Idle{EndsWithAGroup, "it is of outer.on_group_loss = \"continue\""}},

    {KEY(net, transport), kMust, OneOf{{"loopback", "ucx"}}, "",
     "Transport: loopback runs all ranks in one process, ucx runs one process per rank over "
     "shaped links"},
    {KEY(net, profile), kMay, kProfile, "",
     "Links between the ranks: a profile of a full mesh, or a topology file whose node i is "
     "rank i; required for ucx",
     Names::kLinks},
    {KEY(net, emulator), kMay, OneOf{{"auto", "netem", "tap"}}, "", "Link emulator"},
    {KEY(net, congestion_control), kMay, Line{kNameBytes}, "",
     "TCP congestion control; system: the kernel's default, whose name is recorded"},
    {KEY(net, slow_start_after_idle), kMay, Flag{}, "",
     "Let TCP return to slow start after a pause, which is Linux's default; false keeps the "
     "congestion window"},
    {KEY(net, clock), kMay, OneOf{{"simulated"}}, "",
     "With simulated, a run in one process also computes when each step would have ended on "
     "the links of net.profile and the machine of [compute]"},
    {KEY(net, peer_deadline_s), kMay, Real{0.1, 86'400}, "s",
     "Longest silence of a peer before it is declared dead"},
    {KEY(net, out_of_bounds), kMay, OneOf{{"stop", "flag"}}, "",
     "Reaction to a link whose probe is out of bounds: stop before training, or flag the run "
     "and train; either way the run is recorded as invalid"},

    {KEY(eval, rows), kMust, Whole{1, kMany}, "rows",
     "Held-out rows of an evaluation, with the codecs on and off"},

    {KEY(checkpoint, every_steps), kMay, Whole{0, kMany}, "steps",
     "Steps between two checkpoints; 0: none"},
    {KEY(checkpoint, keep), kMay, Whole{2, 1'000'000}, "",
     "Newest checkpoint files that each rank keeps",
     Idle{WithoutCheckpoints, "checkpoint.every_steps is 0"}},
    {KEY(checkpoint, from), kMay, Line{kPathBytes}, "",
     "Folder of checkpoints of a run of the same model and data to resume from, whatever its "
     "stages and groups",
     Names::kCheckpoints},

    {KEY(limits, threads), kMay, Whole{1, 256}, "per worker", "Compute threads", InProgram{kMay}},
};

#undef KEY

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

namespace {

// Reads the value of a key, then checks it.
class KeyReader {
 public:
  KeyReader(TableReader& reader, const SpecKey& key, bool required, const SpecNames& names)
      : reader_(reader), key_(key), names_(names), name_(key.name), required_(required) {}

  template <typename T>
  void ReadInto(T* field) {
    if (required_) {
      reader_.Require(name_, field);
    } else {
      reader_.Allow(name_, field);
    }
    if (reader_.Has(name_)) Check(*field);
  }
  template <typename T>
  void ReadInto(std::optional<T>* field) {
    reader_.Allow(name_, field);
    if (*field) Check(**field);
  }

 private:
  void Check(bool) {}
  void Check(int64_t value) {
    const auto& range = std::get<Whole>(key_.domain);
    reader_.Within(name_, value, range.least, range.most, key_.unit);
  }
  void Check(const std::vector<int64_t>& values) {
    const auto& range = std::get<Wholes>(key_.domain);
    reader_.Check(values.size() <= range.most_values, name_,
                  fmt::format("has {} values; want at most {}", values.size(), range.most_values));
    for (const int64_t value : values) {
      reader_.Within(name_, value, range.least, range.most, "each");
    }
  }
  void Check(double value) {
    const auto& range = std::get<Real>(key_.domain);
    reader_.Within(name_, value, range.least, range.most, key_.unit);
  }
  void Check(const std::string& value) {
    if (const auto* line = std::get_if<Line>(&key_.domain)) {
      reader_.Line(name_, value, line->most_bytes);
    } else if (const auto* choice = std::get_if<OneOf>(&key_.domain)) {
      Check(value, *choice);
    } else {
      reader_.Known(name_, value, names_.*std::get<Known>(key_.domain).names);
    }
  }

  void Check(const std::string& value, const OneOf& choice) {
    std::vector<std::string_view> known = choice.names;
    if (choice.or_python && PythonClassOf(value)) {
      reader_.Line(name_, value, kPathBytes);
      return;
    }
    if (choice.or_python) known.push_back("python:FILE:CLASS");
    reader_.OneOf(name_, value, known);
  }

  TableReader& reader_;
  const SpecKey& key_;
  const SpecNames& names_;
  const std::string name_;
  const bool required_;
};

void Append(SpecLines& lines, SpecLines more) {
  lines.insert(lines.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

}  // namespace

void ReadKey(TableReader& reader, const SpecKey& key, bool required, const SpecNames& names,
             RunSpec& spec) {
  KeyReader one(reader, key, required, names);
  std::visit([&](auto get) { one.ReadInto(get(spec)); }, key.field);
}

SpecLines LinesOf(const RunSpec& spec) {
  SpecLines lines;
  std::string_view table;
  const auto end_table = [&] {
    if (table.empty()) Append(lines, ProgramLines(spec));
    if (table == "boundary") Append(lines, BoundaryCutsLines(spec));
    if (table == "boundary") Append(lines, BoundaryPolicyLines(spec));
    if (table == "outer") Append(lines, GroupScheduleLines(spec));
  };
  for (const SpecKey& key : SpecKeys()) {
    if (key.table != table) end_table();
    table = key.table;
    if (spec.program && !key.in_program) continue;
    std::string value = TextOf(key, spec);
    if (!value.empty()) lines.push_back({std::string(table), std::string(key.name), value});
  }
  Append(lines, ComputeTableLines(spec));
  Append(lines, FaultLines(spec.faults));
  return lines;
}

std::string TomlOf(const SpecLines& lines) {
  std::string text, table;
  for (const SpecLine& line : lines) {
    if (line.table != table) {
      table = line.table;
      const size_t element = table.find('[');
      text += element == std::string::npos ? fmt::format("\n[{}]\n", table)
                                           : fmt::format("\n[[{}]]\n", table.substr(0, element));
    }
    text += fmt::format("{} = {}\n", line.key, line.value);
  }
  return text;
}

std::string ToToml(const RunSpec& spec) { return TomlOf(LinesOf(spec)); }

}  // namespace longhaul
