#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace longhaul {

// What a command did: everything it printed on both streams, and how it ended.
struct CommandResult {
  int exit_status = -1;  // -1: ended by a signal
  int signal = 0;
  std::string output;
  double wall_s = 0;
  int64_t peak_bytes = 0;  // resident, of the largest of its processes that have been waited for
};

// Runs a program (argv[0] is a path) to its end.
CommandResult RunProgram(const std::vector<std::string>& argv);

// Runs build/longhaul with these arguments to its end.
CommandResult RunLonghaul(const std::vector<std::string>& arguments);

// Starts it with its output in `output_file`; the caller waits.
pid_t StartLonghaul(const std::vector<std::string>& arguments, const std::string& output_file);
CommandResult WaitFor(pid_t pid, const std::string& output_file);

// A folder that is removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  std::string path() const { return path_; }
  std::string File(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// A small run: 2 stages, 1 group, a few seconds over loopback. `extra` lines are appended.
std::string TinySpec();

// The same spec, or another, with a short text as its data: where the data do not matter, for
// the 18,000 LibTorch headers cost every process that starts half a second of the processor.
std::string OfSmallText(std::string spec);

// A topology of `nodes` nodes, w0 and so on, with 10 ms of round trip and no rate, which a run would
// probe for seconds a path before and after. The file's path, for net.profile.
std::string LinksWithoutRates(const ScratchFolder& folder, int nodes);

// Whether a run over links came to its end. A busy machine bends its links: with
// net.out_of_bounds = "flag" such a run trains all the same, says that its times are no evidence,
// and has status 1. For tests of what hangs on no link's figures.
bool TrainedToTheEnd(const CommandResult& result);

// Empty when this machine can shape links (root or user namespaces, tun or netem); else the reason.
std::string WhyNoLab();

// Processes whose command line contains `text`, other than this one.
std::vector<pid_t> ProcessesWith(const std::string& text);

// Those among them that a command which is at work has started; other runs may be beside it.
std::vector<pid_t> ProcessesOf(pid_t command, const std::string& text);
// Its worker processes.
std::vector<pid_t> WorkersOf(pid_t command);
bool AnyIsThere(const std::vector<pid_t>& processes);
pid_t ParentOf(pid_t pid);  // 0: there is no such process

// Lines of /proc/mounts that were not among `before`, but for the small disks of tests that run
// beside.
std::vector<std::string> MountsSince(const std::vector<std::string>& before);

std::string ReadFile(const std::string& path);

// Sleeps until condition() holds; false after `seconds`.
template <typename Condition>
bool Eventually(Condition condition, int seconds = 60) {
  for (int i = 0; i < 50 * seconds; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// Removes the checkpoints of later steps below a results folder, as if the run had been killed
// before it wrote them. How many files there were.
int RemoveCheckpointsAfter(int64_t step, const std::string& results);

}  // namespace longhaul
