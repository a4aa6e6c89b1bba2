#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "netem/emulator.h"

namespace longhaul {

// Whether what a lab saw while its workers trained leaves their times any evidence. Judgements of
// numbers, which they also tell as facts of the run; no lab is asked.

void EmitFact(EventSink& sink, const std::string& key, const std::string& value);

// The ordered pairs that carry training traffic: neighbours in a pipeline, both ends of one with a
// tied head, peers of one stage.
std::vector<std::pair<int, int>> UsedPairs(const RunSpec& spec);

// How punctual the emulator was while the workers trained. Aborted when a frame left half a second
// late or more, which none had done before: a step must have seen it. The tail is in bound where one
// frame in a hundred at most was more than 1 ms late. The kernel's netem counts no frames, and then
// nothing is said.
absl::Status JudgeLateness(const Lateness& before, const Lateness& after, EventSink& sink);

// Frames that the nodes' kernels lost before the emulator read them, before and after training; -1:
// unknown, and nothing is said. Aborted where they are more than a thousandth of `frames`, those
// that left: TCP then lives by that loss rather than by the link.
absl::Status JudgeUnread(int64_t before, int64_t after, int64_t frames, EventSink& sink);

// OK when all judgements of a trained run are, else every cause in the order it was seen, with the
// code of the first: one must not hide another.
absl::Status NoEvidence(const std::vector<absl::Status>& judgements);

}  // namespace longhaul
