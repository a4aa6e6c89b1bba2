#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "netem/lab_control/capture.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"
#include "netem/nodes/node_setup.h"

namespace longhaul {
namespace {

struct CaptureOptions {
  std::string lab, path, file;
  int64_t packets = 0, snap_bytes = 0;
  double seconds = 0;
  std::string protocol = "any";
  int port = 0;
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
    return absl::InvalidArgumentError(
        fmt::format("path '{}': want 'a>b', or 'a<>b' for both directions", options.path));
  }
  const bool both = arrow > 0 && options.path[arrow - 1] == '<';
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  auto info = AskLab(store, options.lab, {{"do", "info"}});
  if (!info.ok()) return info.status();
  CaptureSpec spec{.device = kNodeDevice, .from = "", .to = ""};
  ASSIGN_OR_RETURN(auto from,
                   AddressOf(info->message, options.path.substr(0, both ? arrow - 1 : arrow)));
  spec.from = from;
  spec.both = both;
  spec.max_packets = options.packets;
  if (options.seconds > 0) spec.max_time = absl::Seconds(options.seconds);
  if (options.snap_bytes > 0) spec.snap_bytes = static_cast<uint32_t>(options.snap_bytes);
  spec.port = static_cast<uint16_t>(options.port);
  spec.protocol = options.protocol == "tcp"    ? IPPROTO_TCP
                  : options.protocol == "udp"  ? IPPROTO_UDP
                  : options.protocol == "icmp" ? IPPROTO_ICMP
                                               : 0;
  if (spec.port != 0 && spec.protocol == IPPROTO_ICMP) {
    return absl::InvalidArgumentError("--port: ICMP has no ports");
  }
  const bool to_stdout = options.file == "-";
  // The file belongs to the caller and his view of the file system.
  const Fd file(to_stdout
                    ? dup(STDOUT_FILENO)
                    : open(options.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.ok()) return ErrnoStatus("capture: make " + options.file, errno);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  const Fd stop_fd(signalfd(-1, &stop, SFD_CLOEXEC));
  spec.stop_fd = stop_fd.get();
  auto s = EnterNodeNetwork(store, options.lab, options.path.substr(arrow + 1), spec.to);
  if (!s.ok()) return s;
  fmt::print(stderr, "capturing {} into {}; Ctrl-C ends it\n", options.path,
             to_stdout ? "standard output" : options.file);
  ASSIGN_OR_RETURN(auto captured, Capture(spec, file));
  fmt::print(to_stdout ? stderr : stdout, "{} packets{}\n", captured.packets,
             captured.lost == 0 ? "" : fmt::format(", {} more came too fast", captured.lost));
  return absl::OkStatus();
}

}  // namespace

void AddNetCaptureCommand(CLI::App& net, int* exit_status) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* capture = net.add_subcommand(
      "capture", "Write the packets of a path to a pcap file (for tcpdump -r, Wireshark)");
  capture->footer("Example:\n  longhaul net capture demo 'a>b' - --seconds 5 | tcpdump -r -");
  capture->add_option("lab", options->lab, kLabHelp)->required();
  capture
      ->add_option(
          "path", options->path,
          "Path: 'a>b' for packets that arrive at b; 'a<>b' also for those that b sends to a")
      ->required();
  capture->add_option("file", options->file, "File to write; -: stdout")->required();
  capture->add_option("--packets", options->packets, "End after N packets");
  capture->add_option("--seconds", options->seconds, "End after this many seconds");
  capture
      ->add_option("--snaplen", options->snap_bytes, "Bytes to keep of each frame [default: all]")
      ->check(CLI::Range(14, 1 << 18));
  capture->add_option("--protocol", options->protocol, "Keep only this protocol: tcp, udp or icmp")
      ->check(CLI::IsMember({"any", "tcp", "udp", "icmp"}));
  capture->add_option("--port", options->port, "Keep only packets from or to this TCP or UDP port")
      ->check(CLI::Range(1, 65535));
  capture->callback(Calling(RunCapture, options, exit_status));
}

}  // namespace longhaul
