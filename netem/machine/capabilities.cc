#include "netem/machine/capabilities.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <thread>

#include "netem/emulator.h"
#include "netem/emulators/tap_device.h"
#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/kernel/scheduling.h"
#include "netem/lab/lab.h"

namespace longhaul {
namespace {

// What a probe inside a lab found; an error is its text after a '!'.
struct InLab {
  absl::Status lab;
  std::string netem;  // "netem", "tap" or "!why"
  std::string tap;    // "ok" or "!why"
  std::string congestion_controls;
};

std::string Text(const absl::Status& status) {
  return fmt::format("!{}", std::string(status.message()));
}

std::string TryTap() {
  auto space = NetNamespace::Create("@tap-probe");
  if (!space.ok()) return Text(space.status());
  const absl::Status s =
      InNamespace(space->fd(), [] { return OpenTap("probe0", TapFrames::kTso).status(); });
  return s.ok() ? "ok" : Text(s);
}

InLab ProbeInLab() {
  auto answer = AskInLab([]() -> absl::StatusOr<std::string> {
    auto kind = ProbeEmulatorKind();
    return fmt::format("{}\n{}\n{}\n",
                       kind.ok() ? std::string(ToString(*kind)) : Text(kind.status()), TryTap(),
                       ReadFileOrEmpty("/proc/sys/net/ipv4/tcp_allowed_congestion_control"));
  });
  InLab found;
  found.lab = answer.status();
  std::string text = answer.ok() ? *answer : "";
  for (std::string* field : {&found.netem, &found.tap, &found.congestion_controls}) {
    const size_t end = text.find('\n');
    if (end == std::string::npos) break;
    *field = text.substr(0, end);
    text.erase(0, end + 1);
  }
  return found;
}

Capability Kernel() {
  utsname name{};
  uname(&name);
  return {"kernel", fmt::format("{} {}", name.release, name.machine), true, ""};
}

bool ModuleOnDisk(const std::string& module) {
  utsname name{};
  uname(&name);
  const std::string index =
      ReadFileOrEmpty(fmt::format("/lib/modules/{}/modules.dep", name.release));
  return index.find("/" + module + ".ko") != std::string::npos;
}

Capability LabCapability(const InLab& found) {
  const std::string how = geteuid() == 0 ? "as root" : "in a user namespace, without root";
  if (found.lab.ok()) return {"private lab", how, true, ""};
  return {"private lab", "forbidden", false, std::string(found.lab.message())};
}

Capability NetemCapability(const InLab& found) {
  if (found.netem == "netem") return {"sch_netem", "there", true, ""};
  if (ModuleOnDisk("sch_netem")) {
    return {"sch_netem", "loadable", false,
            "run 'modprobe sch_netem' as root; until then tap is used"};
  }
  if (found.netem == "tap") {
    return {"sch_netem", "absent", false,
            "this kernel was built without CONFIG_NET_SCH_NETEM; the tap emulator stands in"};
  }
  return {"sch_netem", "not known", false, found.netem.substr(found.netem.empty() ? 0 : 1)};
}

Capability TapCapability(const InLab& found) {
  if (found.tap == "ok") return {"/dev/net/tun", "usable", true, ""};
  const std::string why =
      found.tap.empty() ? std::string(CheckTunDevice().message()) : found.tap.substr(1);
  return {"/dev/net/tun", "not usable", false, why};
}

Capability RealTimeCapability() {
  std::string_view scheduling;
  std::thread([&] { scheduling = EnterRealTime(RealTime::kEmulator); }).join();
  if (scheduling == "SCHED_FIFO") return {"real-time scheduling", "SCHED_FIFO", true, ""};
  return {"real-time scheduling", "not allowed", false,
          "the tap emulator then delivers late when all cores are busy; run as root, or allow "
          "'rtprio 10' for this user in /etc/security/limits.conf"};
}

Capability CoresCapability() {
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores >= 2) return {"cores", fmt::format("{}", cores), true, ""};
  return {"cores", fmt::format("{}", cores), false,
          "on one core the programs wait for the emulator: choose rates below 100 Mbit/s"};
}

Capability ClockCapability() {
  const std::string path = "/sys/devices/system/clocksource/clocksource0/";
  const std::string source = ReadFileOrEmpty(path + "current_clocksource");
  const bool slow = source == "hpet" || source == "acpi_pm";
  return {"clock source", source.empty() ? "not known" : source, !slow,
          slow ? "reading it is slow; see " + path + "available_clocksource" : ""};
}

Capability CongestionCapability(const InLab& found) {
  const std::string& all = found.congestion_controls;
  if (all.find("cubic") != std::string::npos) return {"congestion controls", all, true, ""};
  return {"congestion controls", all.empty() ? "not known" : all, false,
          "cubic cannot be chosen for a node: add it to net.ipv4.tcp_allowed_congestion_control"};
}

// Whether an ordinary user could have a lab: the switches that distributions use.
Capability WithoutRootCapability() {
  const auto is = [](const char* file, std::string_view value) {
    return ReadFileOrEmpty(file) == value;
  };
  const std::string name = "namespaces without root";
  if (is("/proc/sys/user/max_user_namespaces", "0")) {
    return {name, "forbidden", false, "sysctl -w user.max_user_namespaces=10000"};
  }
  if (is("/proc/sys/kernel/unprivileged_userns_clone", "0")) {
    return {name, "forbidden", false, "sysctl -w kernel.unprivileged_userns_clone=1"};
  }
  if (is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")) {
    return {name, "forbidden by AppArmor", false,
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"};
  }
  return {name, "allowed", true, ""};
}

// Of the host; a lab's nodes get their own tcp_rmem and tcp_wmem, within what the host's limits on
// explicit sizes do not touch.
Capability BufferCapability() {
  const auto read = [](const char* file) {
    return OneBlank(ReadFileOrEmpty(fmt::format("/proc/sys/net/{}", file)));
  };
  return {"buffer limits",
          fmt::format("core.rmem_max {}, core.wmem_max {}, tcp_rmem {}, tcp_wmem {}",
                      read("core/rmem_max"), read("core/wmem_max"), read("ipv4/tcp_rmem"),
                      read("ipv4/tcp_wmem")),
          true, ""};
}

}  // namespace

Capabilities ProbeCapabilities() {
  const InLab found = ProbeInLab();
  Capabilities result;
  result.items = {Kernel(),
                  LabCapability(found),
                  WithoutRootCapability(),
                  NetemCapability(found),
                  TapCapability(found),
                  RealTimeCapability(),
                  ClockCapability(),
                  CoresCapability(),
                  CongestionCapability(found),
                  BufferCapability()};
  result.lab = found.lab.ok();
  result.netem = found.netem == "netem";
  result.tap = found.tap == "ok";
  if (!result.lab) {
    result.best = fmt::format("none: {}", std::string(found.lab.message()));
  } else if (result.netem) {
    result.best = "netem";
  } else if (result.tap) {
    result.best = "tap";
  } else {
    result.best = fmt::format("none: no sch_netem in this kernel, and {}", found.tap.substr(1));
  }
  return result;
}

}  // namespace longhaul
