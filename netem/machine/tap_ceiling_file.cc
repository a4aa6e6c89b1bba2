#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "netem/kernel/posix.h"
#include "netem/machine/tap_ceiling.h"

namespace longhaul {
namespace {

// What the figures hold for.
std::string Machine() {
  utsname name{};
  uname(&name);
  return fmt::format("{} {} {} cores", name.nodename, name.release, sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::string TapCeilingFile() {
  const char* cache = getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/longhaul/tap-ceiling";
  const char* home = getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/longhaul/tap-ceiling";
  return "";
}

std::optional<TapCeiling> LoadTapCeiling() {
  const std::string text = ReadFileOrEmpty(TapCeilingFile());
  const size_t end = text.find('\n');
  if (end == std::string::npos || text.substr(0, end) != Machine()) return std::nullopt;
  TapCeiling c{};
  const int read = sscanf(text.c_str() + end, "%lf %lf %lf %lf", &c.tso.value, &c.mtu_frames.value,
                          &c.tso_core_share, &c.mtu_core_share);
  const bool good = read == 4 && std::isfinite(c.tso.value) && c.tso.value > 0 &&
                    std::isfinite(c.mtu_frames.value) && c.mtu_frames.value > 0;
  return good ? std::optional(c) : std::nullopt;
}

absl::Status StoreTapCeiling(const TapCeiling& c) {
  const std::string file = TapCeilingFile();
  if (file.empty()) return absl::FailedPreconditionError("tap ceiling: no HOME to keep it in");
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  if (error) return ErrnoStatus("make the folder of " + file, error.value());
  // Whole or not at all: another program may be reading it.
  const std::string draft = fmt::format("{}.{}", file, getpid());
  FILE* out = fopen(draft.c_str(), "we");
  if (out == nullptr) return ErrnoStatus("write " + draft, errno);
  fmt::print(out, "{}\n{} {} {} {}\n", Machine(), c.tso.value, c.mtu_frames.value, c.tso_core_share,
             c.mtu_core_share);
  if (fclose(out) != 0) return ErrnoStatus("write " + draft, errno);
  std::filesystem::rename(draft, file, error);
  if (error) return ErrnoStatus("rename to " + file, error.value());
  return absl::OkStatus();
}

}  // namespace longhaul
