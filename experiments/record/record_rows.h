#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace longhaul {

// The rows of schema.sql as plain values; the columns' meanings stand there.

// The words of an enum's values, in their order: columns and events have these. One that is unknown
// reads as the last.
template <typename E>
inline constexpr auto kWords = nullptr;
template <typename E>
concept Worded = !std::is_null_pointer_v<std::remove_const_t<decltype(kWords<E>)>>;
template <Worded E>
constexpr std::string_view ToString(E value) {
  return kWords<E>[static_cast<size_t>(value)];
}
template <Worded E>
E FromWord(std::string_view word) {
  size_t i = 0;
  while (i + 1 < kWords<E>.size() && kWords<E>[i] != word) ++i;
  return static_cast<E>(i);
}

enum class ExperimentKind { kRun, kCampaign };
template <>
inline constexpr std::array<std::string_view, 2> kWords<ExperimentKind> = {"run", "campaign"};

// Keys of ExperimentRow::facts.
// Of a run of a campaign's [program]: its command.
inline constexpr char kProgramFact[] = "program";
// How the parameters of a run are hashed: kHashKind; no such fact: as before there were kinds. Hashes
// of two kinds say nothing of each other; a run that was resumed from one by another has both.
inline constexpr char kHashFact[] = "parameter_hash";
inline constexpr char kHashKind[] = "sum of mixed words";
inline constexpr char kHashesOfTwoKinds[] = "of two kinds";
// Of a run whose compute was injected (RunSpec::Compute): it has step times alone.
inline constexpr char kComputeFact[] = "compute";
// Workers of a run whose ranks have several stages.
inline constexpr char kRanksFact[] = "ranks";
// The step of another run's checkpoint that a run began with: its own first step is the next.
inline constexpr char kRestoredStepFact[] = "restored_step";
// Of every run: its own id, kept when records are merged, and its number among those of its arm
// and seed.
inline constexpr char kRunIdFact[] = "run_id", kAttemptFact[] = "attempt";
// Of a run whose groups came or went: how many paths were judged for bytes that lack, and why.
inline constexpr char kOneSidedPathsFact[] = "paths_judged_for_lack_alone";
// Of a run and of a planned experiment: what the files held that their specs name
// (file_contents.h). Part of the plan's hash.
inline constexpr char kNamedFilesFact[] = "named_files";
// Of a run over links, each of the worker for whom it was largest: the share of its training in which
// it did not run at all (stopped, frozen), in which its threads were ready and waited for a core, and
// what the host of a virtual machine took of all cores. The latter two are absent where the kernel
// does not tell. And whether 99 of 100 frames left the emulator within 1 ms of their time.
inline constexpr char kStillShareFact[] = "still_share", kCoreWaitShareFact[] = "core_wait_share",
                      kStolenShareFact[] = "stolen_share",
                      kEmulatorPunctualFact[] = "emulator_p99_in_bound";
// Of every run that trains: how many of its held-out windows are in the text it trained on ("151 of
// 512"), and how often it passed that text ("3.25").
inline constexpr char kHeldOutInTrainingFact[] = "held_out_windows_in_training",
                      kEpochsFact[] = "epochs";
// Of every run that trains: the unigram entropy of the tokens that it is evaluated on, nat
// (train/spec_corpus.h).
inline constexpr char kUnigramFact[] = "held_out_unigram_nat";
// Of an arm's run: what its forward boundaries cost the weights of its reference, as "nat se rows".
inline constexpr char kUntrainedPriceFact[] = "untrained_price_nat";
// Of a run with a simulated clock: on what links and machine its seconds are.
inline constexpr char kSimulatedClockFact[] = "simulated_clock";
// Of a run that was not trained: SHA-256 of the file that its losses were read from.
inline constexpr char kLossesFact[] = "losses_sha256";
inline constexpr char kForecastFact[] = "forecast";
inline constexpr char kAcceptedUnresolvedFact[] = "accepted_unresolved";

// "" where there is none of this key.
inline std::string FactOf(const std::map<std::string, std::string>& facts, const std::string& key) {
  const auto found = facts.find(key);
  return found == facts.end() ? "" : found->second;
}

struct ExperimentRow {
  int64_t id = 0;
  ExperimentKind kind = ExperimentKind::kRun;
  std::string name = {};
  std::string question = {};
  std::string plan_text = {};
  std::string plan_sha256 = {};
  std::optional<int64_t> d0_tokens = std::nullopt;
  std::string begun_utc = {};
  std::map<std::string, std::string> facts = {};  // experiment_facts
};

enum class Role { kReference, kControl, kArm, kSingle };
template <>
inline constexpr std::array<std::string_view, 4> kWords<Role> = {"reference", "control", "arm",
                                                                 "single"};

// kPartial: trained to its end, but some of its steps or bytes are in no record or in another one.
// kDied is never stored: a run that says "running" while no process writes it any more.
enum class RunStatus { kRunning, kOk, kPartial, kFailed, kDiverged, kInvalid, kInterrupted, kDied };
template <>
inline constexpr std::array<std::string_view, 8> kWords<RunStatus> = {
    "running", "ok", "partial", "failed", "diverged", "invalid", "interrupted", "died"};

struct RunRow {
  int64_t id = 0;             // set by BeginRun
  int64_t experiment_id = 0;  // from BeginExperiment
  std::string arm = {};
  Role role = Role::kSingle;
  double budget_fraction = 1;
  int64_t seed = 0;
  int64_t train_tokens = 0;
  int64_t stages = 1, groups = 1;
  std::string forward_codec = {}, backward_codec = {};
  std::string profile = "loopback";
  std::string spec_toml = {};
  std::string git_revision = {}, host = {}, kernel = {};
  std::string emulator = "none";
  std::string congestion_control = {};
  std::string torch_version = {}, cpu = {}, isa = {};
  int64_t threads = 1;
  // Written by Record:
  int64_t pid = 0;
  std::string begun_utc = {}, finished_utc = {};  // finished_utc: "" while running
  RunStatus status = RunStatus::kRunning;
  std::string reason = {};
  std::map<std::string, std::string> facts = {};  // written by BeginRun and AddFacts
};

// Whether the parameter hashes of two runs can be compared.
inline bool SameHashes(const RunRow& a, const RunRow& b) {
  const std::string kind = FactOf(a.facts, kHashFact);
  return kind == FactOf(b.facts, kHashFact) && kind != kHashesOfTwoKinds;
}

// Which step rows a run has. `rows` is of all its workers; first and last are 0 without rows.
struct StepCoverage {
  int64_t rows = 0, first = 0, last = 0;
};

struct StepRow {
  int64_t step, group_index, stage;
  std::optional<double> loss_nat;
  int64_t tokens;
  double wall_s, forward_s, backward_s, optimizer_s, wait_s, outer_s, encode_s = 0, decode_s = 0;
  bool outer_synced = false;
  int64_t outer_sent_bytes = 0;
  std::optional<uint64_t> parameter_hash = {};  // nullopt: not hashed after this step
};

// When a step would have ended on links and a machine that are not here (train/simulated_clock.h),
// from the start of the run. It says nothing of this machine's time.
inline constexpr char kSimulatedSecond[] = "simulated_s";  // beside a step's row in its event
struct SimulatedRow {
  int64_t step, group_index, stage;
  double simulated_s;
  // Of the rank's messages by then: received over boundaries, and sent in exchanges. Of a rank with
  // several stages the former stand with the lowest.
  int64_t message_bytes = 0;
};

enum class LinkPhase { kBefore, kAfter };
template <>
inline constexpr std::array<std::string_view, 2> kWords<LinkPhase> = {"before", "after"};

struct LinkRow {
  LinkPhase phase;
  int64_t src_node, dst_node;
  std::optional<double> nominal_rate_bit_per_s = std::nullopt;
  double nominal_rtt_s;
  std::optional<double> rtt_min_s = std::nullopt, rtt_median_s = std::nullopt,
                        rtt_p99_s = std::nullopt;
  std::optional<double> nominal_goodput_bit_per_s = std::nullopt, goodput_bit_per_s = std::nullopt;
  double nominal_loss_prob = 0;
  int64_t probes_sent = 0, probes_received = 0;
  int64_t packets = 0, bytes = 0, queue_drops = 0, loss_drops = 0;
  bool ok = true;
  std::string why = {};
};

// kTied: the two parts of the gradient of a head that is the embedding, between a group's first and
// last stage.
enum class Direction { kForward, kBackward, kOuter, kTied, kOther };
template <>
inline constexpr std::array<std::string_view, 5> kWords<Direction> = {"forward", "backward",
                                                                      "outer", "tied", "other"};

struct CrossingRow {
  int64_t src_rank, dst_rank;
  Direction direction;
  std::string codec;
  int64_t tensors, elements;
  std::optional<int64_t> predicted_wire_bytes = std::nullopt;
  int64_t payload_bytes, message_bytes;
  std::optional<int64_t> kernel_tx_bytes = std::nullopt, kernel_rx_bytes = std::nullopt;
  int64_t nmse_samples = 0;
  std::optional<double> nmse_mean = std::nullopt, nmse_max = std::nullopt;
  double encode_s = 0, decode_s = 0;
  uint64_t payload_hash = 0;
};

struct CrossingErrorRow {
  int64_t src_rank, dst_rank;
  int64_t percent, first_step, last_step, samples;
  double nmse_mean, nmse_p95;
};

// A boundary's sender of one group changed its codec before `step`. Before step 1 all have "none".
struct CodecSwitchRow {
  int64_t step, group_index, boundary;
  Direction direction;  // kForward or kBackward
  std::string from_codec = {}, to_codec = {};
  std::string cause = {};
};

enum class EvalCodec { kOn, kOff };
template <>
inline constexpr std::array<std::string_view, 2> kWords<EvalCodec> = {"on", "off"};

struct EvaluationRow {
  int64_t step;
  EvalCodec codec;
  double loss_nat, standard_error_nat;
  int64_t tokens;
};

// One outer step of an elastic run, or one that left a group out. Lists of groups: "0 2"; "": none.
struct RoundRow {
  int64_t round, last_step;
  std::string members = {};   // contributed
  std::string joiners = {};   // took over the state after it
  std::string lost = {};      // were there when the round began, and no more when it ended
  std::string left_out = {};  // members whose outer delta was no number or of absurd norm
  int64_t attempts = 1;       // exchanges until one was whole on all members
  double waited_s = 0;        // of the rank that tells, for those who came late or not at all

  int64_t member_count() const {
    return members.empty() ? 0 : std::count(members.begin(), members.end(), ' ') + 1;
  }
};

// The mean outer delta of a stage after an outer step, against the mean of the one before; of who tells
// of them (pp_group/trainer.h). Unset: there was none before in this life of the group, or its norms
// came with a checkpoint.
struct OuterDeltaRow {
  int64_t step, group_index, stage;
  int64_t fragment = 0;
  double squared_norm = 0;
  std::optional<double> last_squared_norm = std::nullopt, dot = std::nullopt;
  std::optional<double> member_norm = std::nullopt;  // over all stages, mean over the members
};

// A fault that struck, of the script or not. `recovered_step`: the first that the group finished
// after it was back, `recovery_s` later.
struct FaultRow {
  int64_t number;  // in the run, in the order of striking
  int64_t step;
  std::string what = {}, place = {};
  int64_t group_index = -1;  // -1: no group's
  std::string said = {};
  int64_t lost_tokens = 0;  // trained by the group since its last outer step, and lost
  std::optional<int64_t> recovered_step = std::nullopt;
  std::optional<double> recovery_s = std::nullopt;
};

struct EstimateRow {
  std::string arm = {};         // "" for the whole campaign
  std::string evaluation = {};  // "on", "off" or ""
  std::string quantity = {}, unit = {};
  std::optional<double> value = std::nullopt, low = std::nullopt, high = std::nullopt,
                        level = std::nullopt;
  std::string method = {};
  int64_t seeds = 0;
  std::string note = {};
  // "<=" where the value, or the interval's low end, is an upper bound: `method` says it, as "<="
  // or as "t, low end <=".
  std::string_view value_bound() const { return method == "<=" ? "<=" : ""; }
  std::string_view low_bound() const { return method.ends_with(", low end <=") ? "<=" : ""; }
};

}  // namespace longhaul
