#include <fmt/format.h>

#include <cstdio>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/run/machine_check.h"
#include "netem/machine/tap_ceiling.h"

namespace longhaul {
namespace {

constexpr absl::Duration kMeasure = absl::Seconds(3);  // each; under 20 seconds in all

void PrintRow(const std::string& subject, const std::string& text) {
  fmt::print("  {:<25}{}\n", subject, text);
  fflush(stdout);
}

double Gbits(BitsPerSecond rate) { return rate.value / 1e9; }

// "12.1 Gbit/s with 94 % of a core: 12.9 Gbit/s a core"
std::string Carried(BitsPerSecond rate, double core_share) {
  return fmt::format("{:.2f} Gbit/s with {:.0f} % of a core: {:.2f} Gbit/s a core", Gbits(rate),
                     100 * core_share, core_share > 0 ? Gbits(rate) / core_share : 0);
}

absl::Status MeasureTap() {
  ASSIGN_OR_RETURN(auto ceiling, MeasureTapCeiling(kMeasure));
  PrintRow("tap, whole TCP frames", Carried(ceiling.tso, ceiling.tso_core_share));
  PrintRow("tap, cut to the MTU", Carried(ceiling.mtu_frames, ceiling.mtu_core_share));
  const absl::Status kept = StoreTapCeiling(ceiling);
  PrintRow("", kept.ok() ? "faster links are refused from now on (" + TapCeilingFile() + ")"
                         : "not kept: " + std::string(kept.message()));
  return absl::OkStatus();
}

absl::Status MeasureRtt(EmulatorKind kind) {
  ASSIGN_OR_RETURN(auto rtt, MeasureIdleRtt(kind));
  const auto above = [&](absl::Duration time) {
    return absl::ToDoubleMilliseconds(time - rtt.nominal);
  };
  const double p99 = above(rtt.p99);
  PrintRow("added to a round trip",
           fmt::format("median {:.2f} ms, p99 {:.2f} ms, most {:.2f} ms{}", above(rtt.median), p99,
                       above(rtt.max),
                       p99 > 1 ? ": MORE THAN 1 ms, results with tails will be flagged" : ""));
  return absl::OkStatus();
}

void MeasureLinks(const Capabilities& found) {
  fmt::print("\nlinks it can carry (measured, some {} s)\n", found.tap && found.netem ? 14 : 10);
  absl::Status status;
  if (found.netem) {
    auto carried = MeasureNetemCeiling(kMeasure);
    status = carried.status();
    if (carried.ok()) {
      PrintRow("kernel netem",
               fmt::format("{:.2f} Gbit/s, sender, router and receiver together", Gbits(*carried)));
    }
  }
  if (found.tap && status.ok()) status = MeasureTap();
  if (status.ok()) status = MeasureRtt(found.netem ? EmulatorKind::kNetem : EmulatorKind::kTap);
  if (!status.ok()) PrintRow("not measured", std::string(status.message()));
}

int Examine(bool quick) {
  // First, while there is one thread only.
  const Capabilities found = ProbeCapabilities();
  const std::vector<MachineCheck> checks = CheckMachine(found);
  fmt::print("this machine\n");
  for (const MachineCheck& check : checks) {
    PrintRow(check.subject, check.found + (check.ok ? "" : "   <- see below"));
  }
  if (found.lab && (found.netem || found.tap) && !quick) MeasureLinks(found);
  fmt::print("\nlinks will be shaped by: {}\n", found.best);
  bool todo = false;
  for (const MachineCheck& check : checks) {
    if (check.ok) continue;
    fmt::print("{}  {}: {}\n", todo ? "" : "what could be better\n", check.subject, check.remedy);
    todo = true;
  }
  return 0;
}

// Five lines; the whole list tells what to do about each thing.
int Summarize() {
  const Capabilities capabilities = ProbeCapabilities();
  const std::vector<MachineCheck> checks = CheckMachine(capabilities);
  const auto found = [&](std::string_view subject) -> std::string {
    for (const MachineCheck& check : checks) {
      if (check.subject == subject) return check.found;
    }
    return "not asked";
  };
  std::vector<std::string> to_do;
  for (const MachineCheck& check : checks) {
    if (!check.ok) to_do.push_back(check.subject);
  }
  PrintRow("machine",
           fmt::format("{}, {} cores, {}", found("kernel"), found("cores"), found("processor")));
  PrintRow("links", fmt::format("{}; private lab {}; real-time scheduling {}", capabilities.best,
                                found("private lab"), found("real-time scheduling")));
  PrintRow("network", fmt::format("UCX {}; congestion controls {}", found("UCX"),
                                  found("congestion controls")));
  PrintRow("training", fmt::format("torch {}, figures by {}, GPU {}, GPU codecs {}", found("torch"),
                                   found("figures"), found("GPU"), found("GPU codecs")));
  PrintRow("could be better",
           to_do.empty() ? "nothing"
                         : fmt::format("{} ('longhaul doctor' tells how)", fmt::join(to_do, ", ")));
  return 0;
}

// For scripts: status 0 when links can be shaped here; else one line that says why not.
int LabOnly() {
  const MachineCheck lab = CheckLab();
  fmt::print("{}\n", lab.ok ? lab.found : lab.found + "; to do: " + lab.remedy);
  return lab.ok ? 0 : 1;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int* exit_status) {
  auto lab_only = std::make_shared<bool>(false);
  auto brief = std::make_shared<bool>(false);
  auto quick = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this machine can do and how to add what is missing");
  command->group("Setup");
  command->footer("Example:\n  longhaul doctor --brief");
  command->add_flag("--lab", *lab_only,
                    "Check only whether links can be shaped; exit with 1 if not");
  command->add_flag("--brief", *brief, "Print five lines and measure nothing");
  command->add_flag("--quick", *quick, "Skip measuring which links it can carry");
  command->callback([lab_only, brief, quick, exit_status] {
    *exit_status = *lab_only ? LabOnly() : *brief ? Summarize() : Examine(*quick);
  });
}

}  // namespace longhaul
