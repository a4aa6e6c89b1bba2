// `longhaul`: the labs of `longhaul net` are here; every other command is longhaul-engine's, beside
// this file. A program in a node, and whoever waits for it, so map no torch.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "experiments/command/command.h"

namespace {

int Net(int argc, char** argv) {
  CLI::App app{"longhaul net: labs of shaped links for any program"};
  app.require_subcommand(1);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddNetCommand(app, &program, &exit_status);
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}

// argv[0] stays as it was typed: it stands in what --help says.
int Engine(char** argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string engine = (self.parent_path() / "longhaul-engine").string();
  execv(engine.c_str(), argv);
  fmt::print(stderr,
             "longhaul: start {}: {}; without it only `longhaul net` is there (a build without "
             "torch has none)\n",
             engine, std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool net = argc > 1 && std::string_view(argv[1]) == "net";
  return net ? Net(argc, argv) : Engine(argv);
}
