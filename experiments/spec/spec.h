#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/record/file_contents.h"
#include "experiments/spec/fault_script.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// Of a run's steps: the warm-up of a spec that gives none. Under it seeds differ more (see
// experiments/estimates/training_advice.h).
inline constexpr double kWarmUpShare = 0.05;

// Steps of a run that are traced, from 1, both included.
struct TraceSteps {
  int64_t first, last;
};

// One run, as one TOML file says it. A plain value: code below the reader never sees TOML. A field
// that is a choice has no default here and is required in the file; hyperparameters may have one.
// Letters: S stages, G groups, M micro-batches, B rows, T context, H inner steps.
struct RunSpec {
  int64_t seed;  // >= 0: initial weights, data order, codec noise

  struct Model {
    std::string kind;  // "gpt", "llama", "moe" (pp_group/models/model_spec.h)
    int64_t blocks;    // divisible by S, unless schedule.cuts says where stages begin
    int64_t width;     // divisible by heads
    int64_t heads;
    int64_t context;  // tokens of a row
    int64_t vocab;    // 256 for bytes
    // "cpu": written out for the CPU, gpt in float32 only; "aten": LibTorch; "auto": the first
    // that carries this model on train.device in train.dtype. The record has what was chosen.
    std::string engine = "auto";
    // Of llama and moe; 0: as many key and value heads as heads, 8/3 width up to a multiple of 64.
    int64_t kv_heads = 0;
    int64_t hidden = 0;
    bool tied_head = false;  // the head is the embedding
    double rope_theta = 10000;
    // Of moe: each token takes two experts; each expert at most capacity_factor times its even
    // share of a micro-batch (0: all that come); the load-balancing loss has this weight.
    int64_t experts = 8;
    double capacity_factor = 0;
    double balance_loss = 0.01;
    // Of moe: over so many ranks, the peers of a stage in all groups, the experts of each block are
    // spread; 1: each stage has all of its blocks'. Else outer.groups, which are data parallel.
    int64_t expert_parallel = 1;
    std::string init = {};  // safetensors file or index to start from; empty: drawn from the seed
    std::string save = {};  // folder for the weights of the finished run; empty: none
  } model;

  struct Data {
    // "headers" (built in), "text:PATH", "tokens:PATH", "tokens32:PATH" (uint16 and uint32 ids).
    // PATH may be several with commas between them, each a file or a pattern with * and ?.
    std::string source;
    // The same for evaluation, of which nothing is trained on; empty: the part that `source` holds
    // out.
    std::string eval = {};
  } data;

  struct Train {
    std::optional<int64_t> tokens;  // of the whole run, all groups together; or
    std::optional<int64_t> steps;   // inner steps; exactly one of the two
    int64_t batch_rows;             // B, per group and inner step
    int64_t microbatches;           // M, divides batch_rows
    double lr;                      // peak
    // How the rate falls from there: "cosine" (or empty), over the run's own length, or "wsd"
    // (warm-up, stable, decay): it stays, then falls along a line in the last decay_share of the
    // steps. Runs of different lengths are then the same run until the shorter one decays.
    std::string schedule = {};
    std::optional<double> decay_share = {};  // of "wsd": kDecayShare
    double min_lr_fraction = 0.1;            // of the peak, after the last step
    // Linear; the reader fills in kWarmUpShare of the run's steps, rounded up, where none are given.
    std::optional<int64_t> warmup_steps = {};
    std::string optimizer = {};  // a name of InnerOptimizerNames(); empty: the outer algorithm's
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
    double clip_norm = 1.0;  // inf: off
    // "cpu"; "cuda", "cuda:N": all workers that one; "cuda:*": the r-th worker of a machine has GPU r
    // modulo their number.
    std::string device = "cpu";
    std::string dtype = "float32";  // of products and boundaries; or "bfloat16"
    bool recompute = false;  // activations of a block are computed again in its backward pass
    // A GPU's kernel: "math", or "fused", which keeps no probabilities. The reader fills in "fused"
    // for bfloat16 on a GPU where none is given, else "math".
    std::string attention = "math";
    // Parameters are hashed after every such step and the last; 0 or not given: after outer steps, at
    // checkpoints and after the last.
    std::optional<int64_t> hash_every = {};
  } train;

  struct Schedule {
    std::string kind;      // a name of pp_group/schedule/catalog.cc, or "csv"
    int64_t stages;        // S
    int64_t chunks = 1;    // stages of a rank, v: a group has S / v ranks
    int64_t depth = 1;     // of "1f1b-deep": more micro-batches in flight for each boundary
    std::string csv = {};  // of "csv": a file as torch.distributed.pipelining writes it
    // The blocks with which stages 1, 2, ... begin: [2, 5, 11] makes stages of blocks 0-1, 2-4,
    // 5-10 and the rest. Empty: S equal stages.
    std::vector<int64_t> cuts = {};
  } schedule;

  struct Boundary {
    std::string forward;      // codec of activations
    std::string backward;     // codec of their gradients
    int64_t nmse_every = 16;  // the sender decodes every n-th frame to measure its error; 0: never
    // A pair of codecs by boundary: b sits between stages b and b + 1 ("[boundary.cuts]", then
    // "3.forward = ..."). Boundaries that it does not name send "none", which `forward` and
    // `backward` must then be. Empty: every boundary has the codecs above.
    struct Cut {
      std::string forward = "none", backward = "none";
      friend bool operator==(const Cut&, const Cut&) = default;
    };
    std::map<int64_t, Cut> cuts = {};
    std::string capture = {};  // folder for tensors of four steps; empty: none
    // In so many first steps everything crosses as it is; then the codecs begin. Not given: 0.
    std::optional<int64_t> warmup_steps = {};
    // "[boundary.policy]": codecs that change while the run trains. Before the first micro-batch of
    // a step crosses, its sender takes one of the list of its direction, the coarsest first (fewer
    // bytes), for the whole step. A direction without a list keeps the codec above.
    struct Policy {
      // "magnitude": by the root mean square of the tensor; below bounds[i] codec i, else the last.
      // "bandwidth": the finest whose message takes at most target_ms on its link, by the link's
      // rate; else the coarsest. "accuracy": the coarsest whose NMSE on the tensor is below
      // target_nmse; else the last.
      std::string by;
      std::vector<std::string> forward = {}, backward = {};
      std::vector<double> bounds = {};
      double target_ms = 0, target_nmse = 0;
    };
    std::optional<Policy> policy = {};
    // The gradient of an activation that came with zeros (TopK) is taken through them: it is zero
    // where the activation was, before `backward` sees it. What arXiv 2401.07788 does.
    bool mask_gradients = false;
    // The model's residual stream is held to a subspace of so many dimensions, and boundaries send
    // coordinates in it (Protocol Models, arXiv 2506.01260). Not given: none.
    std::optional<int64_t> subspace = {};
  } boundary;

  struct Outer {  // the table may be left out: one group, no outer step
    int64_t groups = 1;
    // A name of pp_group/outer/outer_rules.h. "diloco": groups meet every H inner steps. "dp":
    // synchronous data parallel, DiLoCo's reference: gradients are averaged over the groups in
    // every step, and H must be 0.
    std::string algorithm = "diloco";
    int64_t inner_steps = 0;  // H; 0: no outer step, only with one group or "dp"
    double lr = 0.7;  // these two: unless the file says so, what the algorithm's paper takes
    double momentum = 0.9;
    std::string codec = "none";  // required in the file where groups may meet: H > 0, or "dp"
    // Of algorithms that overlap (pp_group/outer/outer_rules.h): P fragments take turns within H
    // steps, a result comes overlap_steps after its exchange was begun, and local parameters keep
    // the share `mix` then.
    std::optional<int64_t> fragments = {};      // 1
    std::optional<int64_t> overlap_steps = {};  // 0
    std::optional<double> mix = {};             // the algorithm's
    // "all" or "senders": over which groups an element's mean is, all or those that sent it (whose
    // decoded value is not 0). Empty: all.
    std::string mean = {};
    // Of "hierarchical": so many groups, one behind the other, are a cluster; clusters meet after so
    // many rounds, with this codec (empty: that of clusters).
    std::optional<int64_t> cluster_groups = {}, global_every = {};
    std::string global_codec = {};
    // Of algorithms that exchange gradients: in so many first steps those cross otherwise: whole, or
    // of "dgc" more of them.
    std::optional<int64_t> warmup_steps = {};  // 0
    // Of outer steps: the rate grows to `lr` in so many rounds, then is "constant" (or empty) or
    // falls to 0 by a line ("linear") or half a cosine ("cosine").
    std::string lr_schedule = {};
    std::optional<int64_t> lr_warmup_rounds = {};  // 0
    // A group that is lost ends the run ("end"), or the others go on without it ("continue",
    // docs/faults.md): who finished its H steps within round_deadline_s of the first that did is a
    // member of the outer step. Fewer than min_groups end the run.
    std::string on_group_loss = "end";
    double round_deadline_s = 120;
    // Whose state a group takes over that joins: the lowest member's ("member"), or, through a
    // swarm (docs/swarm.md), that of all members, with a slice of AdamW's moments from each
    // ("swarm"; in one process the same bits are copied).
    std::string joiner_source = "member";
    // Of "swarm": most that each worker of a member sends to joiners, of payload. inf: no limit.
    double joiner_up_mbit = std::numeric_limits<double>::infinity();
    int64_t min_groups = 1;
    // "outer.schedule = [[0, 2], [200, 4]]": how many of the groups are there from which finished
    // inner step on, a multiple of H; those with the lowest numbers. Empty: all of them, always.
    struct GroupsFrom {
      int64_t step, groups;
      friend bool operator==(const GroupsFrom&, const GroupsFrom&) = default;
    };
    std::vector<GroupsFrom> schedule = {};
    std::string schedule_written = {};  // "demo.toml:12", for messages
  } outer;

  struct Net {
    std::string transport;  // "loopback" (one process) or "ucx" (P*G processes, shaped links)
    // The rest is used by ucx only, and kept when loopback is set over it.
    // Required for ucx: a profile's name, for a full mesh of it, or a topology file (netem/
    // topology_file.h), which ends in ".toml": its node i is rank i = group * P + rank of the group.
    std::string profile;
    std::string emulator = "auto";              // "auto", "netem", "tap"
    std::string congestion_control = "system";  // "system": the kernel's default; recorded by name
    // false: a flow that paused keeps its window, as tuned long-haul hosts have it; Linux's default
    // starts again with 10 packets, which costs a message after a pause several round trips.
    bool slow_start_after_idle = true;
    double peer_deadline_s = 30;
    // "simulated": a run in one process trains for real and computes when each step would have ended
    // on links of `profile` and the machine of [compute] (train/simulated_clock.h). Empty: no such
    // time.
    std::string clock = {};
    // A link that probes find out of bounds: "stop" before training, or "flag": train, for what
    // does not hang on time. Either way the record calls the run invalid, with the figures.
    std::string out_of_bounds = "stop";
  } net;

  struct Eval {
    int64_t rows;  // of the held-out part, from its start; evaluated codec on and off
  } eval;

  struct Checkpoint {
    int64_t every_steps = 0;  // 0: off
    int64_t keep = 2;         // of each rank's files, the newest; the rest is removed
    // A folder of checkpoints of another run of the same model and data to go on from, at its
    // newest step and whatever its stages and groups were; empty: none. `longhaul run --from`.
    std::string from = {};
  } checkpoint;

  struct Limits {
    int64_t threads = 1;  // per worker process
  } limits;

  // "[compute]": seconds of a machine that is not here. Over links workers sleep them instead of
  // computing, and nothing is trained; with a simulated clock the run trains, and they say how long
  // that would take. nullopt: measured.
  struct Compute {
    std::vector<double> forward_s, backward_s;  // per micro-batch; S of each, or none with flops
    double optimizer_s = 0;                     // per inner step
    // Of a simulated clock alone. In place of seconds: what a rank's device computes at most, and the
    // share of it that training has (train/model_of_spec.h counts the model's operations).
    double flops_per_s = 0, mfu = 0;
    std::vector<double> group_speed = {};  // of each group against the above; empty: all 1
    double memory_gb = std::numeric_limits<double>::infinity();  // of a rank's device
    static constexpr double kRestartSeconds = 30;
    double restart_s = kRestartSeconds;  // from a kill to a group that is there, without weights
    friend bool operator==(const Compute&, const Compute&) = default;
  };
  std::optional<Compute> compute = std::nullopt;
  bool simulated_clock() const { return net.clock == "simulated"; }
  bool injected() const { return compute && !simulated_clock(); }  // slept, nothing trained

  // "[program]", in a campaign alone (program_table.h): what is trained is a program of the user's,
  // as S x G ranks over the loopback interface. Of the rest of this spec it has seed, train.tokens,
  // schedule.stages, boundary.forward and backward, outer.groups and codec, limits.threads.
  struct Program {
    std::vector<std::string> command;  // the same in every rank; the first is a path, or in $PATH
    std::string folder = {};           // that it runs in; empty: the command's
    double timeout_s = 3600;           // of one run; then it is ended
    // Hashed into the plan with every word of the command that is a file: what else the losses hang on.
    std::vector<std::string> files = {};
    std::map<std::string, std::string> environment = {};  // these replace the command's
    friend bool operator==(const Program&, const Program&) = default;
  };
  std::optional<Program> program = std::nullopt;

  std::vector<Fault> faults = {};  // "[[fault]]", fault_script.h

  int64_t stages() const { return schedule.stages; }
  int64_t ranks() const { return schedule.stages / schedule.chunks; }  // of a group: P
  int64_t workers() const { return ranks() * outer.groups; }           // of the run

  // "[files]", files_table.h: what the files that keys name must hold. No part of ToToml: whoever
  // plans a run fills it in (train/spec_files.h), and workers check it.
  std::vector<FileContent> files = {};
  // Steps of which a trace is wanted; of the command that runs it, no part of ToToml either.
  std::optional<TraceSteps> trace = std::nullopt;
};

// What the faults of a spec are checked against and drawn for.
FaultBounds FaultBoundsOf(const RunSpec& spec);
// All that makes groups come and go: `faults`, and the joins and leaves of outer.schedule; drawn.
std::vector<Fault> ScriptOf(const RunSpec& spec);

// Who knows the names that stand in a spec. Each returns OK, or an error whose message lists the
// known names. Filled from the catalogues by CatalogNames() (known_names.h); tests pass their own.
struct SpecNames {
  std::function<absl::Status(std::string_view)> codec;
  std::function<absl::Status(std::string_view)> profile;
  std::function<absl::Status(std::string_view)> schedule;
};

// Tokens of one inner step over all groups: B * T * G.
int64_t TokensPerStep(const RunSpec& spec);
// Inner steps of the run: `steps`, or `tokens` rounded to whole steps, at least 1.
int64_t Steps(const RunSpec& spec);
// The last steps, in which the learning rate of "wsd" falls: its share of all, rounded up; else 0.
constexpr double kDecayShare = 0.2;
int64_t DecaySteps(const RunSpec& spec);
// Tokens really trained on: Steps * TokensPerStep. The D of an arm.
int64_t TrainTokens(const RunSpec& spec);

// Reads and checks one run. InvalidArgument with file and line ("demo.toml:12: unknown key
// 'boundary.forwrad'; known: backward, capture, cuts, forward, mask_gradients, nmse_every, subspace") for a missing key, a
// wrong type, an unknown key, an unknown name and everything that cannot be run (S does not
// divide blocks, ...).
absl::StatusOr<RunSpec> ReadRunSpec(const TomlValue& root, const SpecNames& names);

// The codecs of boundary b, 0 <= b < S - 1, behind the warm-up; of a policy those with the most bytes,
// its last.
RunSpec::Boundary::Cut CodecsOf(const RunSpec& spec, int64_t boundary);
// What the record calls the codecs of a direction: a name, or with [boundary.cuts] every codec but
// "none" with its boundaries, as "int8-b64 at 0, 2; bf16 at 1"; "none" where nothing is coded; of a
// policy "by accuracy: minmax2-b64, int8-b64".
RunSpec::Boundary::Cut CodecText(const RunSpec& spec);
// K: compressed crossings of the run, a "none" being none.
int64_t CompressedCrossings(const RunSpec& spec);

// Keys that change nothing in a run (idle_keys.h): what a user asks for has none; a resolved spec, which
// has every key of an arm, may.
enum class IdleKeys { kTaken, kRefused };
// ReadTomlFile + each `--set` + ReadRunSpec. A campaign file is refused, naming `measure`.
absl::StatusOr<RunSpec> LoadRunSpec(const std::string& path, const std::vector<std::string>& sets,
                                    const SpecNames& names, IdleKeys idle = IdleKeys::kTaken);

// The table [model] of a file alone, whatever else stands in it: of a run's spec, or beside weights.
// Errors as LoadRunSpec; a file without the table.
absl::StatusOr<RunSpec::Model> LoadModelTable(const std::string& path, const SpecNames& names);

// The resolved spec: every key with its value, defaults included. ReadRunSpec reads it back to an
// equal value.
std::string ToToml(const RunSpec& spec);

}  // namespace longhaul
