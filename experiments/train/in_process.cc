#include "experiments/train/in_process.h"

#include <signal.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "experiments/train/check_training.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/train_setup.h"

namespace longhaul {
namespace {

// Process groups of every rank; rank = g * S + s.
absl::StatusOr<std::vector<LocalTelemetry>> MakeRanks(const RunSpec& spec) {
  const int stages = static_cast<int>(spec.schedule.stages);
  const int groups = static_cast<int>(spec.outer.groups);
  std::vector<std::shared_ptr<Node>> nodes;
  for (int rank = 0; rank < stages * groups; ++rank) {
    absl::StatusOr<std::shared_ptr<Node>> node = Node::Create(
        {.transport = TransportKind::kLoopback, .interface = "", .credit_bytes = int64_t{1} << 40});
    if (!node.ok()) return node.status();
    nodes.push_back(*std::move(node));
  }
  std::vector<LocalTelemetry> ranks;
  for (int g = 0; g < groups; ++g) {
    for (int s = 0; s < stages; ++s) {
      const auto& node = nodes[g * stages + s];
      std::vector<std::string> pipeline, peers;
      for (int i = 0; i < stages; ++i) pipeline.push_back(nodes[g * stages + i]->address());
      for (int i = 0; i < groups; ++i) peers.push_back(nodes[i * stages + s]->address());
      const auto make = [&](GroupKind kind, int index, int rank, const auto& addresses) {
        return ProcessGroupLonghaul::FromAddresses(rank, addresses,
                                                   ToGroupOptions(spec, kind, index, node));
      };
      LocalTelemetry rank{.rank = g * stages + s, .group = g, .stage = s};
      rank.boundary = make(GroupKind::kBoundary, g, s, pipeline);
      rank.plain = make(GroupKind::kPlain, g, s, pipeline);
      if (groups > 1) rank.outer = make(GroupKind::kOuter, s, g, peers);
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

// SIGTERM is blocked in this process (in_process.h): it waits for the end of a step.
bool TerminationPending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

absl::Status Run(const RunSpec& spec, const std::string& checkpoint_directory, FdEventSink& sink) {
  at::set_num_threads(static_cast<int>(spec.limits.threads));
  absl::StatusOr<std::shared_ptr<const Corpus>> corpus = OpenCorpus(spec);
  if (!corpus.ok()) return corpus.status();
  if (absl::Status s = CheckTraining(spec, **corpus); !s.ok()) return s;
  absl::StatusOr<std::vector<LocalTelemetry>> ranks = MakeRanks(spec);
  if (!ranks.ok()) return ranks.status();
  EmitRunFacts(spec, **corpus, sink);
  std::vector<LocalRank> local;
  RunLoopOptions options = ToLoopOptions(spec, checkpoint_directory);
  if (!options.checkpoint_directory.empty()) options.stop_asked = TerminationPending;
  for (const LocalTelemetry& r : *ranks) local.push_back(ToLocalRank(r, options.capture.get()));
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(
      ToTrainSpec(spec), std::move(local), *corpus, [] { return MonotonicClock().Now(); });
  if (!trainer.ok()) return trainer.status();
  sink.Emit({{"event", "started"},
             {"rank", 0},
             {"ranks", ranks->size()},
             {"pid", getpid()},
             {"node", "loopback"}});
  return RunLoop(**trainer, *ranks, options, sink);
}

}  // namespace

absl::Status RunInProcess(const RunSpec& spec, const std::string& checkpoint_directory,
                          FdEventSink& sink) {
  const absl::Status status = Run(spec, checkpoint_directory, sink);
  if (!status.ok()) sink.EmitFailure(0, 0, status);
  return status;
}

}  // namespace longhaul
