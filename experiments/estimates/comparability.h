#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// What the bits of a run hang on beside its spec and its files, by name, in this order: the
// revision of the build, LibTorch's version, the instruction sets of the codecs and of LibTorch.
// "" where the record does not say.
std::vector<std::pair<std::string, std::string>> BuildOf(const RunRow& run);

// "revision 1a2b against 3c4d": where the bits of two runs need not agree for that; "": they are of
// one build and one path through the CPU. What one of them does not say is no difference.
std::string OtherBuild(const RunRow& run, const RunRow& reference);

// Of all runs: one line for each of BuildOf, "CPU" and "host" that has several values, with the
// arms of each: "2 of host: alpha (reference@1, s2); beta (s4)". Empty: one build, one machine.
std::vector<std::string> BuildLines(const std::vector<ArmResult>& arms);

// Every different value, in the order met: "1a2b" or "1a2b, 3c4d".
std::string AllRevisions(const std::vector<ArmResult>& arms);

// Fills `builds`, git_revision, and of each arm other_build: the first seed whose run is of another
// build than its reference's.
void CompareBuilds(CampaignAnalysis& a);

// What two losses must have in common before there is a difference between them.

// One content of every file, or no figure: fills mixed_files, and with it every arm's note.
absl::Status RefuseMixed(const Record& record, CampaignAnalysis& a);

// Why the held-out losses of two arms were taken of different texts: the settings in which they
// differ; "": they were not. Other training data are no reason where the held-out text is the same.
std::string OtherText(const ArmResult& reference, const ArmResult& arm);

// What can be said of it before anything is trained, by the specs alone: a line for each arm that
// will have no eta.
std::vector<std::string> OtherTextAdvice(const CampaignSpec& campaign);

}  // namespace longhaul
