#include "experiments/train/spec_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "experiments/record/file_contents.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/weight_files.h"
#include "netem/topology/topology_file.h"
#include "pp_group/data/corpus_files.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

bool IsProgram(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

using NamedPaths = std::vector<std::string>;

// All but the file that says whose they are.
absl::StatusOr<NamedPaths> CheckpointPaths(const std::string& folder) {
  NamedPaths paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && entry.path().filename() != "owner") {
      paths.push_back(entry.path().string());
    }
  }
  if (error) {
    return absl::NotFoundError(fmt::format("checkpoints in {}: {}", folder, error.message()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Empty: the value names none, or none that this run reads.
absl::StatusOr<NamedPaths> FilesNamed(const RunSpec& spec, Names names, const std::string& value) {
  if (value.empty()) return NamedPaths();
  switch (names) {
    case Names::kCorpus:
      return CorpusFiles(CorpusSource(value));
    case Names::kWeights:
      return WeightPaths(value);
    case Names::kCheckpoints:
      return CheckpointPaths(value);
    case Names::kLinks: {
      if ((spec.net.transport == "loopback" && !spec.simulated_clock()) || !IsTopologyFile(value))
        return NamedPaths();
      ASSIGN_OR_RETURN(Topology topology, ReadTopology(value));
      return std::move(topology.files);
    }
    case Names::kProgram:
      return NamedPaths{value};
    case Names::kPython: {
      const std::optional<PythonClass> named = PythonClassOf(value);
      return named ? NamedPaths{named->file} : NamedPaths();
    }
    case Names::kNothing:
    case Names::kOutput:
      break;
  }
  return NamedPaths();
}

// What tells that nobody wrote to a file in between, on one machine.
absl::StatusOr<std::string> StampOf(const std::string& path, int64_t* bytes) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    return absl::NotFoundError(fmt::format("{}: {}", path, strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::FailedPreconditionError(
        path + (S_ISDIR(facts.st_mode) ? ": a folder; want a file" : ": no regular file"));
  }
  *bytes = facts.st_size;
  return fmt::format("{} {} {} {} {}.{} {}.{}\n", path, facts.st_size, facts.st_dev, facts.st_ino,
                     facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_ctim.tv_sec,
                     facts.st_ctim.tv_nsec);
}

// Of the files together, without reading them: bytes, files, stamp.
absl::StatusOr<FileContent> Stamped(const NamedPaths& paths) {
  FileContent content;
  Sha256 all;
  for (const std::string& path : paths) {
    int64_t bytes = 0;
    ASSIGN_OR_RETURN(const std::string stamp, StampOf(path, &bytes));
    content.bytes += bytes;
    ++content.files;
    all.Add(std::as_bytes(std::span(stamp)));
  }
  content.stamp = all.Hex().substr(0, 32);
  return content;
}

// Files that nobody wrote to since are not read again. One entry for all of them: the built-in
// headers are thousands, and an entry for each would be megabytes of every worker.
absl::StatusOr<std::string> HashOfAll(const NamedPaths& paths, const std::string& stamp) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::string>();
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(stamp); found != known.end()) return found->second;
  Sha256 lines;
  std::string last;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> hash = Sha256OfFile(path);
    if (!hash.ok()) return hash;
    last = *std::move(hash) + "\n";
    lines.Add(std::as_bytes(std::span(last)));
  }
  if (paths.size() == 1) last.pop_back();
  return known[stamp] = paths.size() == 1 ? last : lines.Hex();
}

// files = 0: none named.
absl::StatusOr<FileContent> ContentOf(const NamedPaths& paths) {
  if (paths.empty()) return FileContent{};
  ASSIGN_OR_RETURN(FileContent content, Stamped(paths));
  ASSIGN_OR_RETURN(std::string hash, HashOfAll(paths, content.stamp));
  content.sha256 = std::move(hash);
  return content;
}

absl::StatusOr<FileContent> ContentOf(const RunSpec& spec, Names names, const std::string& value) {
  const absl::StatusOr<NamedPaths> paths = FilesNamed(spec, names, value);
  return paths.ok() ? ContentOf(*paths) : paths.status();
}

// Of a [program] all files together, under one name.
absl::StatusOr<FileContent> ContentOfProgram(const RunSpec& spec) {
  const NamedPaths paths = FilesOfProgram(spec);
  ASSIGN_OR_RETURN(FileContent content, ContentOf(paths));
  content.key = "program.command";
  content.value = absl::StrJoin(paths, ",");
  return content;
}

absl::Status OfKey(const SpecKey& key, const absl::Status& status) {
  return absl::Status(status.code(), key.path() + ": " + std::string(status.message()));
}

const std::string& ValueOf(const SpecKey& key, RunSpec& spec) {
  return *std::get<SpecKey::Get<std::string>>(key.field)(spec);
}

// Values that were looked at before, by their key.
using SeenContents = std::map<std::pair<std::string, std::string>, FileContent>;

absl::Status Pin(RunSpec& spec, std::initializer_list<Names> kinds, SeenContents& seen) {
  std::vector<FileContent> files;
  if (spec.program) {
    ASSIGN_OR_RETURN(FileContent content, ContentOfProgram(spec));
    if (content.files > 0) files.push_back(std::move(content));
    spec.files = std::move(files);
    return absl::OkStatus();
  }
  for (const SpecKey& key : SpecKeys()) {
    if (std::find(kinds.begin(), kinds.end(), key.names) == kinds.end()) continue;
    const std::string& value = ValueOf(key, spec);
    // Whether a topology is read hangs on the transport.
    const auto [at, fresh] = seen.try_emplace({key.path(), spec.net.transport + " " + value});
    if (fresh) {
      absl::StatusOr<FileContent> content = ContentOf(spec, key.names, value);
      if (!content.ok()) return OfKey(key, content.status());
      at->second = *std::move(content);
      at->second.key = key.path();
      at->second.value = value;
    }
    if (at->second.files > 0) files.push_back(at->second);
  }
  for (const FileContent& wanted : spec.files) {
    const auto now = std::find_if(files.begin(), files.end(),
                                  [&](const FileContent& f) { return f.key == wanted.key; });
    if (now == files.end() || now->sha256 == wanted.sha256) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} ({}): [files] wants SHA-256 {}, and it holds {}", now->key, now->value,
                    ShortHash(wanted.sha256), ShortHash(now->sha256)));
  }
  spec.files = std::move(files);
  return absl::OkStatus();
}

}  // namespace

std::filesystem::path FolderOfProgram(const RunSpec& spec) {
  return spec.program->folder.empty() ? "." : spec.program->folder;
}

absl::Status CheckProgram(const RunSpec& spec) {
  const RunSpec::Program& program = *spec.program;
  const std::filesystem::path folder = FolderOfProgram(spec);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format("program.folder: no folder {}", folder.string()));
  }
  for (const std::string& file : program.files) {
    if (std::filesystem::is_regular_file(folder / file, error)) continue;
    return absl::NotFoundError(
        fmt::format("program.files: no file {}", (folder / file).lexically_normal().string()));
  }
  const std::string& first = program.command.front();
  if (first.find('/') != first.npos) {
    if (IsProgram(folder / first)) return absl::OkStatus();
    return absl::NotFoundError(fmt::format("program.command: no program {}",
                                           (folder / first).lexically_normal().string()));
  }
  const auto own_path = program.environment.find("PATH");
  const char* const path =
      own_path != program.environment.end() ? own_path->second.c_str() : getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string place; std::getline(folders, place, ':');) {
    if (IsProgram(std::filesystem::path(place.empty() ? "." : place) / first)) {
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError(fmt::format("program.command: no '{}' in $PATH", first));
}

std::vector<std::string> FilesOfProgram(const RunSpec& spec) {
  std::vector<std::string> words = spec.program->command;
  words.insert(words.end(), spec.program->files.begin(), spec.program->files.end());
  std::vector<std::string> files;
  for (const std::string& word : words) {
    std::error_code error;
    const std::filesystem::path path = FolderOfProgram(spec) / word;
    if (std::filesystem::is_regular_file(path, error)) {
      files.push_back(path.lexically_normal().string());
    }
  }
  return files;
}

absl::Status PinFiles(RunSpec& spec, std::initializer_list<Names> kinds) {
  SeenContents seen;
  return Pin(spec, kinds, seen);
}

absl::Status PinFiles(std::vector<PlannedRun>& runs) {
  SeenContents seen;
  for (PlannedRun& run : runs) {
    if (absl::Status s = Pin(run.spec, kAllFiles, seen); !s.ok()) {
      return absl::Status(s.code(), fmt::format("'{}': {}", run.arm, std::string(s.message())));
    }
  }
  return absl::OkStatus();
}

std::vector<FileContent> FilesOfPlan(const std::vector<PlannedRun>& runs) {
  std::vector<FileContent> files;
  for (const PlannedRun& run : runs) {
    for (const FileContent& own : run.spec.files) {
      const bool known = std::any_of(files.begin(), files.end(), [&](const FileContent& f) {
        return f.key == own.key && f.value == own.value;
      });
      if (!known) files.push_back(own);
    }
  }
  return files;
}

absl::Status CheckFiles(const RunSpec& spec, std::initializer_list<Names> kinds,
                        std::string_view what) {
  const auto changed = [what](const FileContent& planned, const std::string& hash) {
    return absl::FailedPreconditionError(fmt::format(
        "{} ({}) {} SHA-256 {}, and this run was planned with {}: put the files back, or begin anew "
        "under another --results",
        planned.key, planned.value, what, ShortHash(hash), ShortHash(planned.sha256)));
  };
  if (spec.program) {
    ASSIGN_OR_RETURN(const FileContent now, ContentOfProgram(spec));
    if (spec.files.empty() || now.sha256 == spec.files[0].sha256) return absl::OkStatus();
    return changed(spec.files[0], now.sha256);
  }
  RunSpec copy = spec;  // a key's field is found in a spec that may be written
  for (const SpecKey& key : SpecKeys()) {
    if (std::find(kinds.begin(), kinds.end(), key.names) == kinds.end()) continue;
    const auto planned = std::find_if(spec.files.begin(), spec.files.end(),
                                      [&](const FileContent& f) { return f.key == key.path(); });
    if (planned == spec.files.end()) continue;
    const absl::StatusOr<NamedPaths> paths = FilesNamed(spec, key.names, ValueOf(key, copy));
    if (!paths.ok()) return OfKey(key, paths.status());
    const absl::StatusOr<FileContent> now = Stamped(*paths);
    if (!now.ok()) return OfKey(key, now.status());
    if (!planned->stamp.empty() && planned->stamp == now->stamp) continue;
    const absl::StatusOr<std::string> hash = HashOfAll(*paths, now->stamp);
    if (!hash.ok()) return OfKey(key, hash.status());
    if (*hash != planned->sha256) return changed(*planned, *hash);
  }
  return absl::OkStatus();
}

absl::Status CheckFilesAtEnd(const RunSpec& spec) {
  return CheckFiles(spec, kMappedFiles, "changed while the run trained: it holds");
}

}  // namespace longhaul
