#include "experiments/run/machine_check.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/cuda/cuda_codec.h"
#include "compressors/isa.h"
#include "experiments/run/reader.h"
#include "netem/emulator.h"
#include "netem/lab/lab.h"
#include "plugin/core/node.h"

namespace longhaul {
namespace {

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Runs in the lab: what would carry a run's links, or why nothing can.
absl::StatusOr<std::string> TryEmulator() {
  ASSIGN_OR_RETURN(EmulatorKind kind, ProbeEmulatorKind());
  ASSIGN_OR_RETURN(Topology topology, UniformTopology("regional", 2));
  ASSIGN_OR_RETURN(std::unique_ptr<Emulator> emulator, BuildEmulator(kind, topology));
  return fmt::format(
      "{}, scheduling {}",
      kind == EmulatorKind::kNetem ? "kernel netem" : "no sch_netem here: the tap emulator",
      emulator->scheduling());
}

MachineCheck CheckFigures() {
  const std::string python = ReaderPython();
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

MachineCheck CheckTorrent() {
  const std::string version = LONGHAUL_LIBTORRENT_VERSION;
  if (!version.empty()) return {"libtorrent", true, version + ", for `longhaul weights`", ""};
  return {"libtorrent", false, "not built in: no `longhaul weights`",
          "apt-get install libtorrent-rasterbar-dev, then build again; all else works without"};
}

int Gpus() {
  int gpus = 0;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", gpus))) ++gpus;
  return gpus;
}

// What codes the tensors of a run on a GPU.
MachineCheck CheckGpuCodecs() {
  if (DeviceCodecsAreBuilt()) return {"GPU codecs", true, "built in", ""};
  return {"GPU codecs", Gpus() == 0, "not built in: a run on a GPU codes on the host",
          "build with -DLONGHAUL_CUDA=ON; it needs nvcc (docs/cuda.md)"};
}

MachineCheck CheckGpus() {
  const int gpus = Gpus();
  if (gpus == 0) return {"GPU", true, "none, and none is needed", ""};
  return {
      "GPU", true,
      fmt::format("{} NVIDIA device{}: where torch is a CUDA build, train.device = {} trains on {}",
                  gpus, gpus == 1 ? "" : "s", gpus == 1 ? "\"cuda\"" : "\"cuda:*\"",
                  gpus == 1 ? "it" : "all of them"),
      ""};
}

}  // namespace

RunHost ReadRunHost() {
  utsname names{};
  uname(&names);
  double load[1] = {0};
  getloadavg(load, 1);
  return {.host = names.nodename,
          .kernel = names.release,
          .cpu = CpuModel(),
          .cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
          .load_1min = load[0],
          .git_revision = LONGHAUL_GIT_REVISION};
}

MachineCheck CheckLab() {
  const absl::StatusOr<std::string> answer = AskInLab(TryEmulator);
  if (answer.ok()) {
    return {"links", true,
            fmt::format("{}; private namespaces {}", *answer,
                        geteuid() == 0 ? "as root" : "as an ordinary user"),
            ""};
  }
  const bool no_lab = absl::IsPermissionDenied(answer.status());
  return {"links", false, std::string(answer.status().message()),
          no_lab
              ? "run as root, or allow user namespaces; runs over loopback work without"
              : "load sch_netem (modprobe sch_netem), or make /dev/net/tun accessible; runs over "
                "loopback work without"};
}

std::vector<MachineCheck> CheckMachine(const Capabilities& capabilities) {
  std::vector<MachineCheck> checks;
  for (const Capability& item : capabilities.items) {
    checks.push_back({item.name, item.good, item.found, item.advice});
  }
  const RunHost host = ReadRunHost();
  checks.push_back(
      {"processor", true, fmt::format("{}, codecs on {}", host.cpu, IsaName(BestIsa())), ""});
  const std::string torch = LONGHAUL_TORCH_VERSION;
  checks.push_back({"torch", !torch.empty(), torch.empty() ? "not built in" : torch,
                    torch.empty() ? "build with -DLONGHAUL_TORCH=ON" : ""});
  const absl::StatusOr<std::string> ucx = UcxVersion();
  checks.push_back({"UCX", ucx.ok(),
                    ucx.ok() ? *ucx + ", over TCP" : std::string(ucx.status().message()),
                    ucx.ok() ? "" : "install libucx-dev; runs over loopback work without"});
  checks.push_back(CheckTorrent());
  checks.push_back(CheckFigures());
  checks.push_back(CheckGpus());
  checks.push_back(CheckGpuCodecs());
  return checks;
}

}  // namespace longhaul
