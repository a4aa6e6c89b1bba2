#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace longhaul {

// Says what ended a process that a signal killed, and names lack of memory only where the kernel
// said so: its counts of out-of-memory kills, of our control group (memory.events, or
// memory.oom_control of version 1) and of the machine (/proc/vmstat), are remembered when this is
// made and read again when a process has been killed.
class KilledBy {
 public:
  // A file's text; nullopt where it can't be read.
  using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
  explicit KilledBy(ReadFile read = ReadWholeFile);

  // "killed by signal 15 (Terminated)", "killed by signal 9 (Killed): memory ran out, ...".
  std::string Text(int signal) const;

 private:
  struct Kills {
    std::optional<int64_t> group, machine;  // since when, only the kernel knows
  };
  static std::optional<std::string> ReadWholeFile(const std::string& path);
  Kills Count() const;
  std::optional<int64_t> CountOfGroup() const;

  const ReadFile read_;
  const Kills before_;
};

}  // namespace longhaul
