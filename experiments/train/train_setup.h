#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "experiments/train/run_loop.h"
#include "pp_group/data/corpus.h"
#include "pp_group/trainer.h"

namespace longhaul {

// From a run's spec to what pp_group and plugin take. Shared by the in-process run and the worker,
// so that the two cannot differ.
TrainSpec ToTrainSpec(const RunSpec& spec);

RunLoopOptions ToLoopOptions(const RunSpec& spec, const std::string& checkpoint_directory);

enum class GroupKind { kBoundary, kPlain, kOuter, kExperts, kTied };

// Options of one process group of group g (boundary, plain, tied) or stage s (outer, experts); the name
// tells them apart on the wire, and only the boundary group's policy opts in to a codec.
c10::intrusive_ptr<ProcessGroupLonghaul::Options> ToGroupOptions(const RunSpec& spec,
                                                                 GroupKind kind, int index,
                                                                 std::shared_ptr<Node> node);

// Which rank of kTied's group of two a stage is: 0 the first one, 1 the last; nullopt: it has no part
// in a tied head, or its rank has both.
std::optional<int> TiedPlaceOf(const RunSpec& spec, int stage);

// Facts every run records, whatever its transport: torch, threads, CPU path of the codecs, hashes.
void EmitRunFacts(const RunSpec& spec, const Corpus& corpus, EventSink& sink);

// The stages of rank `rank` of group `group`, without the process groups they are in.
std::vector<LocalTelemetry> StagesOfRank(const RunSpec& spec, int group, int rank);

// `codecs` and `capture`, which must outlive the trainer, see what the rank sends; `trace` what it and
// its groups tell. All may be null.
LocalRank ToLocalRank(const LocalTelemetry& rank, BoundaryCodecs* codecs, Capture* capture,
                      TraceRecorder* trace = nullptr);

}  // namespace longhaul
