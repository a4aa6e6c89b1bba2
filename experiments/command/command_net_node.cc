#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstdlib>

#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "netem/lab_control/capture.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"
#include "netem/node_setup.h"

namespace longhaul {
namespace {

int Exec(const std::string& where, const std::vector<std::string>& argv) {
  auto name = ParseNodeName(where);
  if (!name.ok()) return Fail(name.status());
  auto store = LabStore::Open();
  if (!store.ok()) return Fail(store.status());
  auto status = RunInNode(*store, name->lab, name->node, argv);
  return status.ok() ? *status : Fail(status.status());
}

struct CaptureOptions {
  std::string lab, path, file;
  int64_t packets = 0;
  double seconds = 0;
};

absl::StatusOr<std::string> AddressOf(const nlohmann::json& info, const std::string& node) {
  for (const auto& known : info.at("nodes")) {
    if (known.value("name", "") == node) return known.value("address", "");
  }
  return absl::NotFoundError(fmt::format("no node '{}' in this lab", node));
}

absl::Status RunCapture(const CaptureOptions& options) {
  const size_t arrow = options.path.find('>');
  if (arrow == std::string::npos) {
    return absl::InvalidArgumentError(fmt::format("path '{}': want 'a>b'", options.path));
  }
  auto store = LabStore::Open();
  if (!store.ok()) return store.status();
  auto info = AskLab(*store, options.lab, {{"do", "info"}});
  if (!info.ok()) return info.status();
  CaptureSpec spec{.device = kNodeDevice, .from = "", .to = ""};
  auto from = AddressOf(info->message, options.path.substr(0, arrow));
  if (!from.ok()) return from.status();
  spec.from = *from;
  spec.max_packets = options.packets;
  if (options.seconds > 0) spec.max_time = absl::Seconds(options.seconds);
  // The file belongs to the caller and his view of the file system.
  const Fd file(open(options.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.ok()) return ErrnoStatus("capture: make " + options.file, errno);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  const Fd stop_fd(signalfd(-1, &stop, SFD_CLOEXEC));
  spec.stop_fd = stop_fd.get();
  auto s = EnterNodeNetwork(*store, options.lab, options.path.substr(arrow + 1), spec.to);
  if (!s.ok()) return s;
  fmt::print(stderr, "capturing {} into {}; Ctrl-C ends it\n", options.path, options.file);
  auto captured = Capture(spec, file);
  if (!captured.ok()) return captured.status();
  fmt::print("{} packets{}\n", captured->packets,
             captured->lost == 0 ? "" : fmt::format(", {} more came too fast", captured->lost));
  return absl::OkStatus();
}

void AddCapture(CLI::App& net, int* exit_status) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* capture = net.add_subcommand(
      "capture", "write what arrives over a path to a pcap file (for tcpdump -r, Wireshark)");
  capture->add_option("lab", options->lab)->required();
  capture->add_option("path", options->path, "'a>b'")->required();
  capture->add_option("file", options->file)->required();
  capture->add_option("--packets", options->packets, "end after so many");
  capture->add_option("--seconds", options->seconds, "end after so long");
  capture->callback([options, exit_status] {
    const absl::Status status = RunCapture(*options);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace

void AddNetNodeCommands(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto where = std::make_shared<std::string>();
  CLI::App* exec = net.add_subcommand("exec", "run a program in a node: exec LAB/NODE -- CMD...");
  exec->add_option("node", *where, "LAB/NODE, then the program and its arguments")->required();
  exec->callback([where, program, exit_status] {
    *exit_status = program->empty()
                       ? Fail(absl::InvalidArgumentError("exec LAB/NODE -- CMD: no CMD"))
                       : Exec(*where, *program);
  });

  auto shell_where = std::make_shared<std::string>();
  CLI::App* shell = net.add_subcommand("shell", "a shell in a node");
  shell->add_option("node", *shell_where, "LAB/NODE")->required();
  shell->callback([shell_where, exit_status] {
    const char* program = getenv("SHELL");
    *exit_status = Exec(*shell_where, {program == nullptr ? "/bin/sh" : program});
  });

  AddCapture(net, exit_status);
}

}  // namespace longhaul
