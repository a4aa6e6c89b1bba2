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
#include "pp_group/models/model_spec.h"
#include "pp_group/optimizer/adamw_spec.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// Of a run's steps: the warm-up of a spec that gives none. Under it seeds differ more (see
// experiments/estimates/training_advice.h).
inline constexpr double kWarmUpShare = 0.05;

// Steps of a run that are traced, from 1, both included.
struct TraceSteps {
  int64_t first, last;
};

// One run, as one TOML file says it. A plain value: code below the reader never sees TOML. What each
// key means stands in its row (spec_keys.cc); here stand defaults, and what a row cannot say. A field
// that is a choice has no default and is required in the file. What the trainer takes is a base of
// its table.
// Letters: S stages, G groups, M micro-batches, B rows, T context, H inner steps.
struct RunSpec {
  int64_t seed;

  struct Model : ModelSpec {
    std::string init = {};
    std::string save = {};
  } model;

  struct Data {
    std::string source;
    std::string eval = {};
  } data;

  // The reader fills in warmup_steps and attention where none are given.
  struct Train : AdamWSpec, ComputeSpec {
    std::optional<int64_t> tokens = {}, steps = {};  // exactly one of the two
    int64_t batch_rows;                              // B
    int64_t microbatches;                            // M
    std::optional<int64_t> hash_every = {};
  } train;

  struct Schedule {
    std::string kind;      // a name of pp_group/schedule/catalog.cc, or "csv"
    int64_t stages;        // S
    int64_t chunks = 1;    // v: a group has S / v ranks
    int64_t depth = 1;     // of "1f1b-deep"
    std::string csv = {};  // of "csv"
    // The blocks with which stages 1, 2, ... begin: [2, 5, 11] makes stages of blocks 0-1, 2-4,
    // 5-10 and the rest. Empty: S equal stages.
    std::vector<int64_t> cuts = {};
  } schedule;

  struct Boundary {
    std::string forward;
    std::string backward;
    int64_t nmse_every = 16;
    // A pair of codecs by boundary: b sits between stages b and b + 1 ("[boundary.cuts]", then
    // "3.forward = ..."). Boundaries that it does not name send "none", which `forward` and
    // `backward` must then be. Empty: every boundary has the codecs above.
    struct Cut {
      std::string forward = "none", backward = "none";
      friend bool operator==(const Cut&, const Cut&) = default;
    };
    std::map<int64_t, Cut> cuts = {};
    std::string capture = {};
    std::optional<int64_t> warmup_steps = {};  // 0
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
    bool mask_gradients = false;  // what arXiv 2401.07788 does
    std::optional<int64_t> subspace = {};
  } boundary;

  // The table may be left out: one group, no outer step. lr, momentum and codec are the algorithm's
  // unless the file gives them; a codec is required where groups may meet: H > 0, or "dp".
  struct Outer : OuterSpec {
    int64_t groups = 1;  // G
    // On "continue" (docs/faults.md) groups that finished their H steps within round_deadline_s of
    // the first that did are members of the outer step.
    std::string on_group_loss = "end";
    double round_deadline_s = 120;
    // "member": the lowest; "swarm" (docs/swarm.md): a slice of AdamW's moments from each; in one
    // process the same bits are copied.
    std::string joiner_source = "member";
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
    std::string transport;
    // The rest is used by ucx only, and kept when loopback is set over it. A topology file's
    // (netem/topology_file.h) name ends in ".toml"; its node i is rank i = group * P + rank of the
    // group.
    std::string profile;
    std::string emulator = "auto";
    std::string congestion_control = "system";
    // true costs a message after a pause several round trips; tuned long-haul hosts have false.
    bool slow_start_after_idle = true;
    double peer_deadline_s = 30;
    std::string clock = {};  // "simulated": train/simulated_clock.h
    std::string out_of_bounds = "stop";
  } net;

  struct Eval {
    int64_t rows;
  } eval;

  struct Checkpoint {
    int64_t every_steps = 0;
    int64_t keep = 2;
    std::string from = {};
  } checkpoint;

  struct Limits {
    int64_t threads = 1;
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
