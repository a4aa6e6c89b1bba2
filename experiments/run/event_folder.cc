#include "experiments/run/event_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "compressors/isa.h"
#include "experiments/record/record.h"
#include "experiments/run/machine_check.h"
#include "experiments/train/event_stream.h"

namespace longhaul {
namespace {

constexpr char kSpecFile[] = "spec.toml";

std::string ReadWhole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Complete or absent under its name, whoever else does the same at this moment.
absl::Status PutSpec(const std::string& folder, const std::string& text) {
  const std::string path = folder + "/" + kSpecFile;
  std::string draft = path + ".XXXXXX";
  Fd fd(mkstemp(draft.data()));
  if (!fd.ok()) return ErrnoStatus("events: make a file in " + folder, errno);
  const bool written = write(fd.get(), text.data(), text.size()) == ssize_t(text.size()) &&
                       fchmod(fd.get(), 0644) == 0 && fsync(fd.get()) == 0;
  const int write_error = errno;
  const bool linked = written && link(draft.c_str(), path.c_str()) == 0;
  const int link_error = errno;
  unlink(draft.c_str());
  if (!written) return ErrnoStatus("events: write " + draft, write_error);
  if (!linked && link_error != EEXIST) return ErrnoStatus("events: make " + path, link_error);
  if (ReadWhole(path) == text) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("events: {} is another run's spec; give this run a folder of its own", path));
}

// A line's fields that the folder is sorted by.
struct Met {
  int64_t attempt = 0;  // 0: the process never met the others
  int64_t life = 0;
};

void Observe(const nlohmann::json& event, EventFile& file, Met* met) {
  const std::string kind = event.value("event", "");
  if (kind == "attempt") {
    *met = {.attempt = event.value("id", int64_t{0}), .life = event.value("life", int64_t{0})};
  }
  if (kind == "step") file.last_step = event.value("step", int64_t{0});
  if (kind == "finished") file.finished = true;
  if (kind == "failed") file.failure = event.value("message", "no reason given");
  if (kind == "lost") file.lost = event.value("message", "no reason given");
  if (kind == "fault" && event.value("what", "") == "leave") file.left = true;
  if (kind != "worker") return;
  file.rank = event.value("rank", int64_t{-1});
  file.host = event.value("host", "");
  file.kernel = event.value("kernel", "");
  file.cpu = event.value("cpu", "");
  file.isa = event.value("isa", "");
  file.torch = event.value("torch", "");
  file.git_revision = event.value("git_revision", "");
  file.begun_utc = event.value("begun_utc", "");
}

absl::StatusOr<EventFile> Skim(const std::string& path, Met* met) {
  EventFile file{.path = path};
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("events: open " + path, errno);
  file.alive = flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  RETURN_IF_ERROR(ForEachEvent(
      path, [&](const nlohmann::json& event) { Observe(event, file, met); }, &file.torn));
  if (met->attempt != 0 && file.rank < 0) {
    return absl::DataLossError(fmt::format("{}:1: want the event 'worker' first", path));
  }
  return file;
}

absl::StatusOr<std::vector<std::string>> EventPaths(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    if (!entry.is_regular_file(error)) {
      return absl::FailedPreconditionError(
          fmt::format("events: {} is no regular file", entry.path().string()));
    }
    paths.push_back(entry.path().string());
  }
  if (error) return absl::NotFoundError(fmt::format("events in {}: {}", folder, error.message()));
  if (paths.empty()) {
    return absl::NotFoundError(fmt::format(
        "events in {}: no *.jsonl there; 'longhaul worker --events FOLDER' writes them", folder));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::map<int64_t, const EventFile*> Attempt::LastByRank() const {
  std::map<int64_t, const EventFile*> last;
  for (const auto& [process, file] : files) last[process.rank] = &file;  // lives ascend
  return last;
}

absl::Status ForEachEvent(const std::string& path,
                          const std::function<void(const nlohmann::json&)>& see, bool* torn) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("events: open " + path, errno);
  EventReader reader(fd.get());
  int64_t lines = 0;
  try {
    for (;;) {
      const auto more = reader.Read([&](const nlohmann::json& event) {
        see(event);
        ++lines;
      });
      if (!more.ok()) {
        return absl::DataLossError(
            fmt::format("{}:{}: {}", path, lines + 1, std::string(more.status().message())));
      }
      if (*more == EventReader::More::kEnd) break;
    }
  } catch (const nlohmann::json::exception& e) {  // a field of another type than events have
    return absl::DataLossError(fmt::format("{}:{}: {}", path, lines + 1, e.what()));
  }
  if (torn != nullptr) *torn = reader.torn();
  return absl::OkStatus();
}

absl::StatusOr<Fd> OpenEventFile(const std::string& folder, const RunSpec& spec, int rank) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::PermissionDeniedError(fmt::format("events: make {}: {}", folder, error.message()));
  }
  RETURN_IF_ERROR(PutSpec(folder, ToToml(spec)));
  std::string path = fmt::format("{}/rank-{:05}-XXXXXX.jsonl", folder, rank);
  Fd fd(mkostemps(path.data(), /*suffixlen=*/6, O_APPEND | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("events: make " + path, errno);
  if (fchmod(fd.get(), 0644) != 0) return ErrnoStatus("events: chmod " + path, errno);
  // A file system without locks costs the reader's knowledge of who is alive, and nothing else.
  (void)flock(fd.get(), LOCK_EX | LOCK_NB);
  const RunHost host = ReadRunHost();
  FdEventSink sink(fd.get());
  sink.Emit({{"event", "worker"},
             {"rank", rank},
             {"host", host.host},
             {"kernel", host.kernel},
             {"cpu", host.cpu},
             {"isa", IsaName(BestIsa())},
             {"torch", LONGHAUL_TORCH_VERSION},
             {"git_revision", host.git_revision},
             {"begun_utc", UtcNow()}});
  if (!sink.status().ok()) return sink.status();
  return fd;
}

absl::StatusOr<EventFolder> ReadEventFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto paths, EventPaths(folder));
  EventFolder found;
  found.spec_toml = ReadWhole(folder + "/" + kSpecFile);
  if (found.spec_toml.empty()) {
    return absl::NotFoundError(fmt::format(
        "events in {}: no {} there; workers write it beside their events", folder, kSpecFile));
  }
  std::map<int64_t, Attempt> attempts;
  for (const std::string& path : paths) {
    Met met;
    ASSIGN_OR_RETURN(EventFile file, Skim(path, &met));
    if (met.attempt == 0) {
      found.never_met.push_back(std::move(file));
      continue;
    }
    Attempt& attempt =
        attempts.try_emplace(met.attempt, Attempt{.id = met.attempt, .files = {}}).first->second;
    const auto [at, fresh] = attempt.files.try_emplace({met.life, file.rank}, file);
    if (!fresh) {
      return absl::DataLossError(
          fmt::format("events: {} and {} are of one rank and one start", at->second.path, path));
    }
  }
  for (auto& [id, attempt] : attempts) found.attempts.push_back(std::move(attempt));
  return found;
}

}  // namespace longhaul
