#include "experiments/run/machine_check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "compressors/isa.h"
#include "experiments/run/run_host.h"
#include "netem/emulator.h"
#include "netem/lab.h"
#include "plugin/core/node.h"

namespace longhaul {
namespace {

// Runs in the lab: what would carry a run's links, or why nothing can.
absl::StatusOr<std::string> TryEmulator() {
  absl::StatusOr<EmulatorKind> kind = ProbeEmulatorKind();
  if (!kind.ok()) return kind.status();
  absl::StatusOr<Topology> topology = UniformTopology("regional", 2);
  if (!topology.ok()) return topology.status();
  absl::StatusOr<std::unique_ptr<Emulator>> emulator = BuildEmulator(*kind, *topology);
  if (!emulator.ok()) return emulator.status();
  return fmt::format(
      "{}, scheduling {}",
      *kind == EmulatorKind::kNetem ? "kernel netem" : "no sch_netem here: the tap emulator",
      (*emulator)->scheduling());
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(fd, buffer.data(), buffer.size())) > 0;) text.append(buffer.data(), n);
  return text;
}

MachineCheck CheckFigures() {
  const std::string python = PlotPython();
  const std::string command =
      fmt::format("'{}' -c 'import matplotlib; print(matplotlib.__version__)' 2>/dev/null", python);
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 64> version{};
  const bool found = pipe != nullptr && std::fscanf(pipe, "%63s", version.data()) == 1;
  if (pipe != nullptr) pclose(pipe);
  if (!found) {
    return {"figures", false, fmt::format("no matplotlib in {}: reports have tables only", python),
            "run 'make setup', or install matplotlib there"};
  }
  return {"figures", true, fmt::format("matplotlib {}", version.data()), ""};
}

}  // namespace

std::string PlotPython() { return LONGHAUL_PYTHON; }

MachineCheck CheckLab() {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return {"links", false, "no pipe", "close some files"};
  absl::StatusOr<LabProcess> lab = StartLab(
      [fd = answer[1]] {
        const absl::StatusOr<std::string> found = TryEmulator();
        const std::string text = found.ok() ? *found : std::string(found.status().message());
        (void)!write(fd, text.data(), text.size());
        return found.ok() ? 0 : 1;
      },
      {answer[1]});
  close(answer[1]);
  if (!lab.ok()) {
    close(answer[0]);
    return {"links", false, std::string(lab.status().message()),
            "run as root, or allow user namespaces; runs over loopback work without"};
  }
  const std::string text = ReadAll(answer[0]);
  close(answer[0]);
  int status = 0;
  waitpid(lab->pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {"links", true,
            fmt::format("{}; private namespaces {}", text,
                        geteuid() == 0 ? "as root" : "as an ordinary user"),
            ""};
  }
  return {
      "links", false, text.empty() ? "the lab died" : text,
      "load sch_netem (modprobe sch_netem), or make /dev/net/tun accessible; runs over loopback "
      "work without"};
}

std::vector<MachineCheck> CheckMachine() {
  const RunHost host = ReadRunHost();
  std::vector<MachineCheck> checks;
  // First, while there is one thread only.
  const MachineCheck lab = CheckLab();
  checks.push_back({"machine", true,
                    fmt::format("{} cores, {}, Linux {}, codecs on {}", host.cores, host.cpu,
                                host.kernel, IsaName(BestIsa())),
                    ""});
  checks.push_back(lab);
  const absl::StatusOr<std::string> ucx = UcxVersion();
  checks.push_back(
      {"software", ucx.ok(),
       fmt::format("torch {}, {}", LONGHAUL_TORCH_VERSION,
                   ucx.ok() ? "UCX " + *ucx + " over TCP" : std::string(ucx.status().message())),
       ucx.ok() ? "" : "install the package libucx-dev; runs over loopback work without"});
  checks.push_back(CheckFigures());
  const bool gpu = std::filesystem::exists("/dev/nvidia0");
  checks.push_back({"GPU", true,
                    gpu ? "an NVIDIA device is there; stages train on the CPU all the same"
                        : "none, and none is needed",
                    ""});
  return checks;
}

}  // namespace longhaul
