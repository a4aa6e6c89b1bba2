#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/record/file_contents.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_keys.h"

namespace longhaul {

// What a [program] needs to be there. `spec` has one.

// Where its command runs.
std::filesystem::path FolderOfProgram(const RunSpec& spec);
// Whether there is such a program, folder and files. NotFound, in one line.
absl::Status CheckProgram(const RunSpec& spec);
// The words of its command and of program.files that are files, as paths from here. Their contents
// are part of the plan.
std::vector<std::string> FilesOfProgram(const RunSpec& spec);

// The files that the keys of a spec name, found by the table of keys alone (SpecKey::names): a new
// key that names files is hashed, compared and checked as all others.

inline constexpr std::initializer_list<Names> kMappedFiles = {Names::kCorpus, Names::kWeights,
                                                              Names::kPython};
// What a run that begins trains on and from.
inline constexpr std::initializer_list<Names> kFilesOfBegun = {Names::kCorpus, Names::kWeights,
                                                               Names::kPython, Names::kCheckpoints};
// Of a run that goes on after a checkpoint of its own: what it began from (checkpoint.from) is not
// read again and may be gone.
inline constexpr std::initializer_list<Names> kFilesOfResumed = {
    Names::kCorpus, Names::kWeights, Names::kLinks, Names::kProgram, Names::kPython};
inline constexpr std::initializer_list<Names> kAllFiles = {Names::kCorpus, Names::kWeights,
                                                           Names::kLinks,  Names::kProgram,
                                                           Names::kPython, Names::kCheckpoints};

// Fills spec.files with what the named files hold now, of `kinds` alone. A file is read once in a process, as long as
// its size, inode and times stay. FailedPrecondition with both hashes: the table [files] wants
// something else. NotFound, InvalidArgument: what the readers of such files say.
absl::Status PinFiles(RunSpec& spec, std::initializer_list<Names> kinds);
// The same of every run of a plan.
absl::Status PinFiles(std::vector<PlannedRun>& runs);
// What a plan says of its files: each value of a key once, in the order of the runs.
std::vector<FileContent> FilesOfPlan(const std::vector<PlannedRun>& runs);

// Whether the files of these kinds still hold what spec.files says; where their stamp is another
// they are read. FailedPrecondition with both hashes; `what` stands behind the key: "holds", or
// "changed while the run trained: it holds".
absl::Status CheckFiles(const RunSpec& spec, std::initializer_list<Names> kinds,
                        std::string_view what = "holds");

// The same of what was read or mapped while the run trained: data, weights, Python.
absl::Status CheckFilesAtEnd(const RunSpec& spec);

}  // namespace longhaul
