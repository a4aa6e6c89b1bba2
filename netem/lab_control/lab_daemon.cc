#include "netem/lab_control/lab_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "netem/gateway/relay.h"
#include "netem/lab/host_names.h"
#include "netem/lab/lab.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/lab_messages.h"
#include "netem/lab_control/lab_requests.h"
#include "netem/lab_control/path_change.h"

namespace longhaul {
namespace {

constexpr int kMaxConnections = 32;
constexpr absl::Duration kClaimPatience = absl::Seconds(5);
constexpr absl::Duration kRequestTimeout = absl::Seconds(5);

// One line to the process that waits in StartLabDaemon: a status code and a text. False: it is
// gone, and so nobody wants this lab.
bool Report(int fd, const absl::Status& status) {
  const std::string text =
      fmt::format("{}{}", static_cast<char>(status.code()), std::string(status.message()));
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

absl::Status ReadReport(const Fd& report) {
  std::string text;
  char buffer[512];
  for (ssize_t n = 0; (n = read(report.get(), buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  if (text.empty()) return absl::InternalError("lab: it ended while it was built; see its log");
  return absl::Status(static_cast<absl::StatusCode>(text[0]), text.substr(1));
}

// Accepts connections until one of them says "down". A thread per connection: a probe takes
// seconds, and statistics are wanted meanwhile. The threads share the ownership, as the process
// ends without waiting for them.
class LabServer : public std::enable_shared_from_this<LabServer> {
 public:
  LabServer(std::unique_ptr<LabRequests> requests, Fd listener)
      : requests_(std::move(requests)),
        listener_(std::move(listener)),
        down_(eventfd(0, EFD_CLOEXEC)),
        spare_(OpenSpare()) {}

  void Serve() {
    for (;;) {
      pollfd ready[] = {{listener_.get(), POLLIN, 0}, {down_.get(), POLLIN, 0}};
      if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
      if (ready[1].revents != 0) return;
      if (ready[0].revents == 0) continue;
      Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const bool no_descriptor = !connection.ok() && (errno == EMFILE || errno == ENFILE);
      if (no_descriptor) {  // to leave the caller in the queue would wake us for ever
        spare_.reset();
        connection = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      }
      if (!connection.ok()) continue;
      if (no_descriptor || connections_ >= kMaxConnections) {
        SendLine(connection, ErrorAnswer(absl::ResourceExhaustedError("lab: too many at once")))
            .IgnoreError();
        connection.reset();
        if (!spare_.ok()) spare_ = OpenSpare();
        continue;
      }
      ++connections_;
      std::thread([self = shared_from_this(), connection = std::move(connection)] {
        self->Handle(connection);
        --self->connections_;
      }).detach();
    }
  }

 private:
  static Fd OpenSpare() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  void Handle(const Fd& connection) {
    auto request = ReceiveLine(connection, kRequestTimeout);
    if (!request.ok()) return;
    const auto what = request->message.find("do");
    const bool down = what != request->message.end() && *what == "down";
    std::vector<int> fds;
    const nlohmann::json answer =
        down ? nlohmann::json{{"ok", true}} : requests_->Answer(request->message, fds);
    SendLine(connection, answer, fds).IgnoreError();
    if (down) eventfd_write(down_.get(), 1);
  }

  std::unique_ptr<LabRequests> requests_;
  Fd listener_;
  Fd down_;
  Fd spare_;  // a descriptor to take a connection with when there are no others
  std::atomic<int> connections_ = 0;
};

// As many as the system lets us: a lab holds several for each node.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

OtherNames NamesBeyond(const LabSpec& spec) {
  OtherNames names{.ip = spec.options.ip, .hosts = "", .resolver = ""};
  if (!spec.gateway) return names;
  names.hosts = fmt::format("{} {}\n", kHostAddress, kHostName);
  const HostResolver& host = spec.gateway->resolver;
  if (!host.server.empty()) {
    names.resolver = fmt::format("nameserver {}\n{}", kNameServerAddress, host.rules);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Emulator>> Build(const LabSpec& spec) {
  RaiseDescriptorLimit();
  ASSIGN_OR_RETURN(auto kind, ChooseEmulatorKind(spec.emulator, spec.topology));
  if (kind == EmulatorKind::kTap && spec.ceiling) {
    RETURN_IF_ERROR(CheckRates(spec.topology, *spec.ceiling));
  }
  RETURN_IF_ERROR(NameNodes(spec.topology, NamesBeyond(spec)));
  auto emulator = BuildEmulator(kind, spec.topology, spec.options);
  if (!absl::IsResourceExhausted(emulator.status())) return emulator;
  return absl::ResourceExhaustedError(fmt::format("a lab of {} nodes: {}",
                                                  spec.topology.nodes.size(),
                                                  std::string(emulator.status().message())));
}

// A holder that does not answer is being built for somebody who may have been killed, or ends just
// now: it gets a moment to be gone. That it can be connected to says nothing: it listens before it
// knows whether anybody wants it.
absl::Status ClaimWithin(LabStore& store, const std::string& lab, absl::Duration patience) {
  const absl::Time end = MonotonicNow() + patience;
  for (;;) {
    const absl::Status s = store.Claim(lab);
    const absl::Duration left = end - MonotonicNow();
    if (!absl::IsAlreadyExists(s) || left <= absl::ZeroDuration()) return s;
    if (AskLab(store, lab, {{"do", "info"}}, left).ok()) return s;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

// The daemon. The store and the pipe are this process's copies.
int DaemonMain(LabStore& store, const LabSpec& spec, Fd& report, Fd& relay) {
  signal(SIGPIPE, SIG_IGN);
  if (spec.with_caller)
    signal(SIGINT, SIG_IGN);  // of a terminal; its programs decide what it means
  if (auto s = ClaimWithin(store, spec.name, kClaimPatience); !s.ok()) {
    Report(report.get(), s);
    return 1;
  }
  if (auto log = store.OpenLog(spec.name); !log.ok()) {
    Report(report.get(), log.status());
    return 1;
  } else if (dup2(log->get(), STDERR_FILENO) < 0) {
    Report(report.get(), ErrnoStatus("lab: write to its log", errno));
    return 1;
  }
  auto emulator = Build(spec);
  absl::Status built = emulator.status();
  std::unique_ptr<Gateway> gateway;
  if (built.ok() && spec.gateway) {
    auto made = Gateway::Build(*spec.gateway, **emulator, std::move(relay));
    built = made.status();
    if (made.ok()) gateway = *std::move(made);
  }
  auto listener = built.ok() ? store.Listen(spec.name) : absl::StatusOr<Fd>(built);
  if (!listener.ok()) {
    Report(report.get(), listener.status());
    return 1;
  }
  const auto server = std::make_shared<LabServer>(
      std::make_unique<LabRequests>(spec.name, *std::move(emulator), std::move(gateway)),
      *std::move(listener));
  if (!Report(report.get(), absl::OkStatus())) return 1;
  report.reset();
  server->Serve();
  return 0;
}

}  // namespace

absl::Status StartLabDaemon(LabStore& store, const LabSpec& spec) {
  RETURN_IF_ERROR(CheckLabName(spec.name));
  RETURN_IF_ERROR(Validate(spec.topology));
  RETURN_IF_ERROR(CheckSchedule(spec.topology));
  if (!store.Holder(spec.name)) store.RemoveIfDead(spec.name);
  Fd relay, lab_of_relay;  // the two ends of a socket between the lab and its relay
  LabCompanion companion;
  if (spec.gateway) {
    auto s = CheckRelay();
    if (s.ok()) s = CheckGateway(*spec.gateway, spec.topology);
    if (!s.ok()) return s;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return ErrnoStatus("lab: a socket to its relay", errno);
    }
    relay = Fd(ends[0]);
    lab_of_relay = Fd(ends[1]);
    companion.keep_fds = {lab_of_relay.get()};
    companion.body = [&] {
      RaiseDescriptorLimit();  // for the nodes' connections
      return RunRelay(*spec.gateway, spec.topology, std::move(lab_of_relay));
    };
  }
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus("lab: pipe", errno);
  const Fd reports(report[0]);
  Fd reporter(report[1]);
  auto lab =
      StartLab([&] { return DaemonMain(store, spec, reporter, relay); },
               {store.folder_fd(), reporter.get(), relay.get()},
               spec.with_caller ? LabLifetime::kWithCaller : LabLifetime::kDetached, companion);
  reporter.reset();
  relay.reset();
  lab_of_relay.reset();
  if (!lab.ok()) return lab.status();
  const absl::Status status = ReadReport(reports);
  if (status.ok()) {
    const absl::Status noted = store.NoteKeeper(spec.name, lab->pid);
    if (!noted.ok()) TakeDown(store, spec.name).IgnoreError();
    return noted;
  }
  waitpid(lab->pid, nullptr, 0);
  store.RemoveIfDead(spec.name);
  return status;
}

}  // namespace longhaul
