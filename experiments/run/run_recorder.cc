#include "experiments/run/run_recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compressors/isa.h"
#include "experiments/record/row_json.h"
#include "experiments/run/ledgers.h"
#include "experiments/run/machine_check.h"
#include "experiments/run/memory_plan.h"
#include "experiments/run/run_place.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/stall_detector.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

using nlohmann::json;

RunStatus StatusOf(const absl::Status& outcome) {
  switch (outcome.code()) {
    case absl::StatusCode::kOk:
      return RunStatus::kOk;
    case absl::StatusCode::kOutOfRange:
      return RunStatus::kDiverged;
    case absl::StatusCode::kCancelled:
      return RunStatus::kInterrupted;
    case absl::StatusCode::kFailedPrecondition:
      return RunStatus::kInvalid;
    default:
      return RunStatus::kFailed;
  }
}

// What was wrong with a run until its checkpoint of this step; none: nothing.
std::string FlawsFact(int64_t step) { return fmt::format("flaws_until_step_{}", step); }

constexpr const char* kDisturbanceFacts[] = {kStillShareFact, kCoreWaitShareFact, kStolenShareFact};

}  // namespace

RunRecorder::RunRecorder(Record& record, int64_t run, const RunSpec& spec)
    : record_(record),
      run_(run),
      spec_(spec),
      crossings_(spec.ranks(), spec.outer.codec),
      faults_(OuterPlanOf(spec), spec.schedule.stages, [] { return MonotonicClock().Now(); }) {}

// What an event of each kind does; a kind that is not here is no fact of the record.
const std::map<std::string, void (*)(RunRecorder&, const json&)>& RunRecorder::Observers() {
  using Self = RunRecorder;
  static const std::map<std::string, void (*)(Self&, const json&)> observers = {
      {"link", Keep<LinkRow>},
      {"error", Keep<CrossingErrorRow>},
      {"step",
       [](Self& r, const json& e) {
         Keep<StepRow>(r, e);
         r.faults_.SeeStep(r.Pending<StepRow>().back());
         if (e.contains(kSimulatedSecond)) Keep<SimulatedRow>(r, e);
       }},
      {"round",
       [](Self& r, const json& e) {
         Keep<RoundRow>(r, e);
         r.repeated_exchanges_ += r.Pending<RoundRow>().back().attempts - 1;
       }},
      {"outer_delta", Keep<OuterDeltaRow>},
      {"codec_switch",
       [](Self& r, const json& e) {
         Keep<CodecSwitchRow>(r, e);
         r.switches_.push_back(r.Pending<CodecSwitchRow>().back());
       }},
      {"evaluation",
       [](Self& r, const json& e) {
         Keep<EvaluationRow>(r, e);
         const EvaluationRow& row = r.Pending<EvaluationRow>().back();
         r.losses_[std::string(ToString(row.codec))] = row.loss_nat;
       }},
      {"fault", [](Self& r, const json& e) { r.faults_.SeeFault(RowFrom<FaultRow>(e)); }},
      {"crossing", [](Self& r, const json& e) { r.crossings_.Observe(RowFrom<CrossingCount>(e)); }},
      {"told_crossing",
       [](Self& r, const json& e) { r.told_crossings_.push_back(RowFrom<CrossingRow>(e)); }},
      {"checkpoint",
       [](Self& r, const json& e) {
         r.checkpoints_[e.value("step", int64_t{0})].ranks.insert(e.value("rank", int64_t{0}));
       }},
      {"stillness",
       [](Self& r, const json& e) {
         double& longest = r.longest_still_s_[e.value("rank", int64_t{0})];  // of all its lives
         longest = std::max(longest, e.value("longest_s", 0.0));
         for (const char* fact : kDisturbanceFacts) {
           if (e.contains(fact)) r.SeeDisturbance(fact, e.value(fact, 0.0));
         }
       }},
      {"fact",
       [](Self& r, const json& e) {
         const json& value = e["value"];
         const std::string key = e.value("key", "");
         r.facts_[key] = value.is_string() ? value.get<std::string>() : value.dump();
         if (!value.is_number()) return;
         if (key == "resumed_from_step") r.resumption_ = r.SeeResumption(value.get<int64_t>());
         if (key == kRestoredStepFact) r.restored_ = value.get<int64_t>();
       }},
      {"started",
       [](Self& r, const json& e) {
         r.facts_[fmt::format("node_of_rank_{}", e.value("rank", 0))] = e.value("node", "");
       }},
      {"kernel",
       [](Self& r, const json& e) {
         for (const char* bytes : {"tx_bytes", "rx_bytes"}) {
           r.facts_[fmt::format("rank_{}_{}_interface_{}", e.value("rank", 0), e.value("phase", ""),
                                bytes)] = std::to_string(e.value(bytes, int64_t{0}));
         }
       }},
  };
  return observers;
}

void RunRecorder::Observe(const json& event) {
  const auto observer = Observers().find(event.value("event", ""));
  if (observer != Observers().end()) observer->second(*this, event);
  const int64_t checkpoint = event.value("checkpoint", int64_t{0});  // 0: of the whole training
  (checkpoint > 0 ? checkpoints_[checkpoint].wire : wire_).Observe(event);
}

void RunRecorder::SeeDisturbance(const std::string& fact, double share) {
  double& largest = disturbances_[fact];
  largest = std::max(largest, share);
  facts_[fact] = fmt::format("{:.4g}", largest);
}

// Every rank says it; what the crossings had counted then is read once.
absl::Status RunRecorder::SeeResumption(int64_t step) {
  if (resumed_from_ == step) return resumption_;
  resumed_from_ = step;
  absl::StatusOr<std::vector<CrossingRow>> earlier = record_.CheckpointCrossings(run_, step);
  if (!earlier.ok()) return earlier.status();
  earlier_ = *std::move(earlier);
  ASSIGN_OR_RETURN(std::vector<FaultRow> faults, record_.RowsOf<FaultRow>(run_));
  faults_.SeeEarlier(faults);
  ASSIGN_OR_RETURN(std::vector<CodecSwitchRow> switches, record_.RowsOf<CodecSwitchRow>(run_));
  std::erase_if(switches, [step](const CodecSwitchRow& s) { return s.step > step; });
  switches_.insert(switches_.begin(), switches.begin(), switches.end());
  ASSIGN_OR_RETURN(RunRow row, record_.Run(run_));
  earlier_flaws_ = FactOf(row.facts, FlawsFact(step));
  for (const char* fact : kDisturbanceFacts) {
    const std::string earlier = FactOf(row.facts, fact);
    if (!earlier.empty()) SeeDisturbance(fact, std::atof(earlier.c_str()));
  }
  if (const std::string restored = FactOf(row.facts, kRestoredStepFact); !restored.empty()) {
    restored_ = std::atoll(restored.c_str());
  }
  return absl::OkStatus();
}

// What makes the times no evidence, in words: bytes that do not add up, workers that stood still.
std::string RunRecorder::Flaws(const absl::Status& bytes) const {
  std::vector<std::string> flaws;
  if (!earlier_flaws_.empty()) flaws.push_back(earlier_flaws_);
  for (const auto& [rank, seconds] : longest_still_s_) {
    if (seconds < kWorkerStoodStillS) continue;
    flaws.push_back(fmt::format("rank {} stood still for {:.2f} s while it trained, bound {:g} s",
                                rank, seconds, kWorkerStoodStillS));
  }
  if (!bytes.ok()) flaws.emplace_back(bytes.message());
  return absl::StrJoin(flaws, "; ");
}

absl::Status RunRecorder::FlushCheckpoints() {
  const auto ranks = static_cast<size_t>(spec_.workers());
  for (auto it = checkpoints_.begin(); it != checkpoints_.end();) {
    CheckpointCounts& counts = it->second;
    if (counts.ranks.size() < ranks) {
      ++it;
      continue;
    }
    std::vector<CrossingRow> crossings = crossings_.RowsAt(it->first);
    const std::string flaws = Flaws(FillWireBytes(spec_, counts.wire, crossings, Wire()));
    if (!flaws.empty()) {
      RETURN_IF_ERROR(record_.AddFacts(run_, {{FlawsFact(it->first), flaws}}));
    }
    AddEarlierCounts(earlier_, crossings);
    RETURN_IF_ERROR(record_.AddCheckpointCrossings(run_, it->first, crossings));
    crossings_.Forget(it->first);
    it = checkpoints_.erase(it);
  }
  return absl::OkStatus();
}

absl::Status RunRecorder::FlushFacts() {
  if (facts_.empty()) return absl::OkStatus();
  // The lab tells its emulator first, a worker the congestion control later.
  if (facts_.contains("emulator")) emulator_ = facts_["emulator"];
  if (facts_.contains("emulator") || facts_.contains("congestion_control")) {
    RETURN_IF_ERROR(record_.SetLab(run_, emulator_, FactOf(facts_, "congestion_control")));
  }
  RETURN_IF_ERROR(record_.AddFacts(run_, facts_));
  facts_.clear();
  return absl::OkStatus();
}

template <typename Row>
absl::Status RunRecorder::FlushRows() {
  std::vector<Row>& rows = Pending<Row>();
  if (rows.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(record_.Add(run_, rows));
  rows.clear();
  return absl::OkStatus();
}

absl::Status RunRecorder::Flush() {
  RETURN_IF_ERROR(resumption_);
  RETURN_IF_ERROR(FlushFacts());
  Pending<FaultRow>() = faults_.TakeChanged();
  absl::Status flushed = absl::OkStatus();
  const auto flush = [this, &flushed]<typename... Row>(const std::tuple<std::vector<Row>...>&) {
    ((flushed.ok() ? void(flushed = FlushRows<Row>()) : void()), ...);
  };
  flush(pending_);
  RETURN_IF_ERROR(flushed);
  return FlushCheckpoints();
}

// Every round is there, and a row of its last step of every worker of its members.
absl::Status RunRecorder::WholeRounds() const {
  ASSIGN_OR_RETURN(std::vector<RoundRow> rounds, record_.RowsOf<RoundRow>(run_));
  const OuterPlan plan = OuterPlanOf(spec_);
  const int64_t want = plan.rounds() - plan.RoundsBy(restored_);
  int64_t whole = 0;
  for (const RoundRow& round : rounds) {
    ASSIGN_OR_RETURN(StepCoverage last, record_.Coverage(run_, round.last_step, round.last_step));
    if (last.rows == round.member_count() * spec_.schedule.stages) ++whole;
  }
  if (whole == want) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("partial: of {} rounds this record has {} whole ones", want, whole));
}

absl::Status RunRecorder::Whole(const std::string& flaws) const {
  if (spec_.program) return absl::OkStatus();  // its steps are what it tells
  const int64_t steps = Steps(spec_);
  const int64_t rows = spec_.stages() * spec_.outer.groups;  // of a step
  ASSIGN_OR_RETURN(StepCoverage there, record_.Coverage(run_, restored_ + 1, steps));
  const bool elastic = spec_.outer.on_group_loss == "continue";
  if (elastic) {
    RETURN_IF_ERROR(WholeRounds());
  } else if (there.rows != (steps - restored_) * rows) {
    return absl::DataLossError(
        fmt::format("partial: of {} steps this record has {} to {}, {} of {} rows; the rest was "
                    "trained elsewhere",
                    steps, there.first, there.last, there.rows, (steps - restored_) * rows));
  }
  if (resumed_from_ > 0 && earlier_.empty() && spec_.workers() > 1) {
    return absl::DataLossError(fmt::format("partial: its crossings count from step {} of {} on",
                                           resumed_from_ + 1, steps));
  }
  if (!flaws.empty()) {
    return absl::FailedPreconditionError("trained to the end, but its times are no evidence: " +
                                         flaws);
  }
  ASSIGN_OR_RETURN(RunRow row, record_.Run(run_));
  const std::string links = FactOf(row.facts, kEarlierLinksFact);
  if (links.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("its times are no evidence: before it was resumed, {}", links));
}

WirePart RunRecorder::Wire() const {
  return {.restored = restored_,
          .came_or_went = faults_.groups(),
          .repeated_exchanges = repeated_exchanges_,
          .switches = switches_,
          .as_planned = faults_.groups_came_or_went() == 0};
}

absl::Status RunRecorder::Finish(const absl::Status& outcome) {
  const bool own = !spec_.program;  // else nothing is planned, and no link counts
  std::vector<CrossingRow> crossings = own ? crossings_.Rows() : told_crossings_;
  const absl::Status bytes =
      own ? FillWireBytes(spec_, wire_, crossings, Wire()) : absl::OkStatus();
  const std::string one_sided =
      own ? JudgedForLackAlone(spec_, wire_, crossings, Wire()) : std::string();
  if (!one_sided.empty()) facts_[kOneSidedPathsFact] = one_sided;
  absl::Status written = Flush();
  std::string flaws = Flaws(bytes);
  AddEarlierCounts(earlier_, crossings);
  if (written.ok() && !crossings.empty()) written = record_.Add(run_, crossings);
  absl::Status verdict = outcome;
  if (verdict.ok()) verdict = written;
  RunStatus status = StatusOf(verdict);
  if (verdict.ok()) {
    verdict = Whole(flaws);
    status = absl::IsDataLoss(verdict) ? RunStatus::kPartial : StatusOf(verdict);
  } else if (absl::IsFailedPrecondition(verdict) && !flaws.empty()) {
    verdict = absl::FailedPreconditionError(absl::StrCat(verdict.message(), "; ", flaws));
  }
  const absl::Status finished = record_.FinishRun(run_, status, std::string(verdict.message()));
  return verdict.ok() ? finished : verdict;
}

RunRow NewRunRow(const RunSpec& spec, int64_t experiment_id, const std::string& arm) {
  const RunHost host = ReadRunHost();
  RunRow row;
  row.experiment_id = experiment_id;
  row.arm = arm;
  row.seed = spec.seed;
  row.train_tokens = TrainTokens(spec);
  row.stages = spec.schedule.stages;
  row.groups = spec.outer.groups;
  const RunSpec::Boundary::Cut codecs = CodecText(spec);
  row.forward_codec = codecs.forward;
  row.backward_codec = codecs.backward;
  row.profile = spec.net.transport == "loopback" ? "loopback" : spec.net.profile;
  row.spec_toml = ToToml(spec);
  row.git_revision = host.git_revision;
  row.host = host.host;
  row.kernel = host.kernel;
  row.torch_version = LONGHAUL_TORCH_VERSION;
  row.cpu = host.cpu;
  row.isa = std::string(IsaName(BestIsa()));
  row.threads = spec.limits.threads;
  row.facts = {{"cores", std::to_string(host.cores)},
               {"load_1min_at_start", std::to_string(host.load_1min)}};
  row.facts[kRunIdFact] = NewIdentity();
  row.facts["outer_codec"] = spec.outer.codec;
  if (!spec.files.empty()) row.facts[kNamedFilesFact] = ContentsText(spec.files);
  if (spec.program) {
    row.torch_version = "";  // the program's, if it has one
    row.facts[kProgramFact] = absl::StrJoin(spec.program->command, " ");
    return row;
  }
  row.facts[kHashFact] = kHashKind;
  row.facts["device"] = spec.train.device;
  row.facts["dtype"] = spec.train.dtype;
  if (spec.schedule.chunks > 1) row.facts[kRanksFact] = std::to_string(spec.workers());
  if (const std::string staleness = StalenessOf(spec); !staleness.empty()) {
    row.facts["staleness_steps"] = staleness;
  }
  row.facts["predicted_worker_bytes"] = std::to_string(PlanResources(spec).worker_bytes);
  if (spec.simulated_clock()) row.facts["rank_bytes"] = std::to_string(RankBytes(spec));
  row.facts["inner_steps"] = std::to_string(spec.outer.inner_steps);
  row.facts["outer_algorithm"] = spec.outer.algorithm;
  if (spec.injected()) row.facts[kComputeFact] = "injected: step times alone, nothing was trained";
  return row;
}

}  // namespace longhaul
