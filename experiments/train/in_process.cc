#include "experiments/train/in_process.h"

#include <signal.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "experiments/elastic/local_membership.h"
#include "experiments/train/boundary_codecs.h"
#include "experiments/train/check_training.h"
#include "experiments/train/clocked_steps.h"
#include "experiments/train/gpu_of_worker.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/spec_files.h"
#include "experiments/train/train_setup.h"
#include "pp_group/memory/tensor_memory.h"

namespace longhaul {
namespace {

// What stands beside simulated seconds, so that nobody takes them for real ones.
std::string ClockedBy(const RunSpec& spec) {
  const RunSpec::Compute& c = *spec.compute;
  return absl::StrCat("simulated seconds: links ", spec.net.profile, ", ",
                      c.flops_per_s > 0
                          ? absl::StrFormat("%.4g flops/s at MFU %.3g", c.flops_per_s, c.mfu)
                          : std::string("passes as [compute] says"),
                      "; without jitter, coding and the outer update");
}

// Process groups of every stage, by group, then stage.
absl::StatusOr<std::vector<LocalTelemetry>> MakeRanks(const RunSpec& spec) {
  std::vector<LocalTelemetry> ranks;
  std::vector<int> groups;
  for (int g = 0; g < static_cast<int>(spec.outer.groups); ++g) {
    ASSIGN_OR_RETURN(std::vector<LocalTelemetry> group, NewLocalGroup(spec, g));
    ranks.insert(ranks.end(), group.begin(), group.end());
    groups.push_back(g);
  }
  if (groups.size() > 1) JoinLocalGroups(spec, groups, /*meeting=*/0, ranks);
  return ranks;
}

// SIGTERM is blocked in this process (in_process.h): it waits for the end of a step.
bool TerminationPending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

absl::Status Run(const RunSpec& spec, const std::string& checkpoint_directory,
                 const Branching& branching, int64_t gpu_bytes, FdEventSink& sink) {
  UseTensorMemory();
  at::set_num_threads(static_cast<int>(spec.limits.threads));
  ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> corpus, OpenCorpus(spec));
  RETURN_IF_ERROR(CheckFiles(spec, kFilesOfBegun));
  RETURN_IF_ERROR(CheckTraining(spec, *corpus));
  ASSIGN_OR_RETURN(std::vector<LocalTelemetry> ranks, MakeRanks(spec));
  EmitRunFacts(spec, *corpus, sink);
  RETURN_IF_ERROR(TakeGpu(spec, /*rank=*/0, gpu_bytes, sink));
  std::vector<LocalRank> local;
  RunLoopOptions options = ToLoopOptions(spec, checkpoint_directory);
  options.branching = branching;
  if (!branching.begin_in.empty()) options.restore_from = branching.begin_in;
  if (!options.checkpoint_directory.empty()) options.stop_asked = TerminationPending;
  ASSIGN_OR_RETURN(std::shared_ptr<BoundaryCodecs> codecs, BoundaryCodecs::Of(spec));
  options.codecs = std::move(codecs);
  // A simulated clock tells of itself what it says of them.
  TraceRecorder* const trace = spec.simulated_clock() ? nullptr : options.trace.get();
  for (const LocalTelemetry& r : ranks) {
    local.push_back(ToLocalRank(r, options.codecs.get(), options.capture.get(), trace));
  }
  std::unique_ptr<Membership> membership;
  if (spec.outer.on_group_loss == "continue") {
    membership = NewLocalMembership(spec, ranks, sink);
    options.membership = membership.get();
  }
  std::unique_ptr<SimulatedClock> clock;
  std::optional<ClockedSteps> clocked;
  if (spec.simulated_clock()) {
    ASSIGN_OR_RETURN(std::unique_ptr<SimulatedClock> made, SimulatedClock::Of(spec));
    clock = std::move(made);
    options.clocked = &clocked.emplace(*clock);
    sink.Emit({{"event", "fact"}, {"key", kSimulatedClockFact}, {"value", ClockedBy(spec)}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                   Trainer::Create(
                       ToTrainSpec(spec), std::move(local), corpus,
                       [] { return MonotonicClock().Now(); }, membership.get()));
  sink.Emit({{"event", "started"},
             {"rank", 0},
             {"ranks", spec.workers()},
             {"pid", getpid()},
             {"node", "loopback"}});
  RETURN_IF_ERROR(RunLoop(*trainer, ranks, options, sink));
  return CheckFilesAtEnd(spec);
}

}  // namespace

absl::Status RunInProcess(const RunSpec& spec, const std::string& checkpoint_directory,
                          const Branching& branching, int64_t gpu_bytes, FdEventSink& sink) {
  const absl::Status status = Run(spec, checkpoint_directory, branching, gpu_bytes, sink);
  if (!status.ok()) sink.EmitFailure(0, 0, status);
  return status;
}

}  // namespace longhaul
