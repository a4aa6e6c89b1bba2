#include "tests/experiments/command/command_line.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;

CommandResult Finish(pid_t pid, const std::string& output_file, Clock::time_point start) {
  CommandResult result;
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  result.peak_bytes = usage.ru_maxrss * 1024;
  result.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.output = ReadFile(output_file);
  return result;
}

}  // namespace

std::vector<std::string> MountsSince(const std::vector<std::string>& before) {
  std::vector<std::string> mounts;
  std::istringstream lines(ReadFile("/proc/mounts"));
  for (std::string line; std::getline(lines, line);) {
    const bool is_new = std::find(before.begin(), before.end(), line) == before.end();
    if (is_new && !line.starts_with("small ")) mounts.push_back(line);
  }
  return mounts;
}

int RemoveCheckpointsAfter(int64_t step, const std::string& results) {
  std::vector<std::filesystem::path> late;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(results)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.find("-step");
    if (entry.path().extension() == ".ckpt" && at != std::string::npos &&
        std::stoll(name.substr(at + 5)) > step) {
      late.push_back(entry.path());
    }
  }
  for (const auto& path : late) std::filesystem::remove(path);
  return static_cast<int>(late.size());
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

namespace {

pid_t Start(const std::vector<std::string>& words, const std::string& output_file) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_file.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::vector<std::string> LonghaulWith(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LONGHAUL_BINARY);
  return arguments;
}

}  // namespace

pid_t StartLonghaul(const std::vector<std::string>& arguments, const std::string& output_file) {
  return Start(LonghaulWith(arguments), output_file);
}

CommandResult WaitFor(pid_t pid, const std::string& output_file) {
  return Finish(pid, output_file, Clock::now());
}

CommandResult RunProgram(const std::vector<std::string>& argv) {
  ScratchFolder scratch;
  const std::string output = scratch.path() + "/output";
  const Clock::time_point start = Clock::now();
  return Finish(Start(argv, output), output, start);
}

CommandResult RunLonghaul(const std::vector<std::string>& arguments) {
  return RunProgram(LonghaulWith(arguments));
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "longhaul-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::File(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string LinksWithoutRates(const ScratchFolder& folder, int nodes) {
  std::string text;
  for (int i = 0; i < nodes; ++i) text += "[[node]]\nname = \"w" + std::to_string(i) + "\"\n";
  return folder.File("links-" + std::to_string(nodes) + ".toml", text + "[between]\nrtt_ms = 10\n");
}

std::string TinySpec() { return ReadFile(LONGHAUL_TINY_SPEC); }

std::string OfSmallText(std::string spec) {
  const std::string headers = "source = \"headers\"";
  const size_t at = spec.find(headers);
  return at == std::string::npos
             ? spec
             : spec.replace(at, headers.size(), "source = \"text:" LONGHAUL_SMALL_TEXT "\"");
}

bool TrainedToTheEnd(const CommandResult& result) {
  return result.exit_status == 0 || result.output.find("trained to the end") != std::string::npos;
}

std::string WhyNoLab() {
  static const CommandResult doctor = RunLonghaul({"doctor", "--lab"});
  return doctor.exit_status == 0 ? "" : doctor.output;
}

pid_t ParentOf(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string state;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

std::vector<pid_t> ProcessesOf(pid_t command, const std::string& text) {
  std::vector<pid_t> found = ProcessesWith(text);
  std::erase_if(found, [command](pid_t pid) {
    while (pid > 1 && pid != command) pid = ParentOf(pid);
    return pid != command;
  });
  return found;
}

std::vector<pid_t> WorkersOf(pid_t command) { return ProcessesOf(command, "--events-fd"); }

bool AnyIsThere(const std::vector<pid_t>& processes) {
  return std::any_of(processes.begin(), processes.end(), [](pid_t pid) {
    return !ReadFile("/proc/" + std::to_string(pid) + "/cmdline").empty();  // a zombie's is empty
  });
}

std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    std::string words = ReadFile(entry.path() / "cmdline");
    std::replace(words.begin(), words.end(), '\0', ' ');  // what the kernel puts between them
    if (words.find(text) != std::string::npos) found.push_back(pid);
  }
  return found;
}

}  // namespace longhaul
