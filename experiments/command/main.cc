// `longhaul`: the labs of `longhaul net` are here; `weights` is longhaul-weights', what reads records and plans is Python's
// (reader.h), and every other command longhaul-engine's, beside this file. A program in a node, and whoever waits for it,
// so map no torch, and neither does one that shares or fetches.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "experiments/command/command.h"
#include "experiments/run/reader.h"

namespace {

int Net(int argc, char** argv) {
  CLI::App app{"Build labs of shaped links and run any program in their nodes"};
  app.require_subcommand(1);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddNetCommand(app, &program, &exit_status);
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}

// The first of these programs that is beside this one. argv[0] stays as it was typed: it stands in what
// --help says.
int Beside(std::initializer_list<const char*> programs, char** argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string path;
  for (const char* program : programs) {
    path = (self.parent_path() / program).string();
    execv(path.c_str(), argv);
    if (errno != ENOENT) break;
  }
  fmt::print(stderr,
             "longhaul: start {}: {}; without it only `longhaul net` and `longhaul weights` are "
             "there (a build without torch has no others)\n",
             path, std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "net") return Net(argc, argv);
  if (command == "weights") return Beside({"longhaul-weights"}, argv);
  if (longhaul::IsReaderVerb(command)) {
    longhaul::HoldStandardStreams();
    return longhaul::Fail(longhaul::BecomeReader({argv + 1, argv + argc}));
  }
  return Beside({"longhaul-engine", "longhaul-demo"}, argv);
}
