#include <cstring>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/record/whole_file.h"
#include "experiments/spec/known_names.h"
#include "planning/scale/what_if.h"

namespace longhaul {
namespace {

struct ScaleOptions {
  std::string spec;
  std::vector<std::string> set, sweep;
  int64_t seeds = 1;
  std::string csv, svg;
  bool json = false;
};

constexpr int64_t kMostSeeds = 1000;

std::string HeadText(const scale::ScaleSpec& spec, int64_t seeds) {
  const RunSpec& run = spec.run;
  return fmt::format(
      "simulated time: S = {}, G = {}, {} steps in rounds of {}, {}; {} to {} Mbit/s inside, {} "
      "between; "
      "{} seed{}\nNothing is trained: step times are P2's of [compute], links as named, "
      "without random loss.\n",
      run.schedule.stages, run.outer.groups, Steps(run),
      std::max<int64_t>(1, run.outer.inner_steps), run.schedule.kind, run.net.profile,
      spec.inside.rate_bit_per_s / 1e6, spec.between.rate_bit_per_s / 1e6, seeds,
      seeds == 1 ? "" : "s");
}

absl::Status RunScale(const ScaleOptions& options) {
  std::vector<scale::Axis> axes;
  for (const std::string& text : options.sweep) {
    const absl::StatusOr<scale::Axis> axis = scale::ParseAxis(text);
    if (!axis.ok()) return axis.status();
    axes.push_back(*axis);
  }
  const absl::StatusOr<TomlValue> root = ReadTomlFile(options.spec, options.set);
  if (!root.ok()) return root.status();
  std::vector<scale::Point> points;
  const absl::Status status =
      scale::RunWhatIf(*root, axes, options.seeds, CatalogNames(),
                       [&](const scale::Point& point) { points.push_back(point); });
  if (!status.ok()) return status;
  if (!options.csv.empty()) {
    const absl::Status written = WriteWholeFile(options.csv, scale::WhatIfCsv(axes, points));
    if (!written.ok()) return written;
  }
  if (!options.svg.empty()) {
    const absl::StatusOr<std::string> svg = scale::WhatIfSvg(axes, points);
    if (!svg.ok()) return svg.status();
    if (const absl::Status s = WriteWholeFile(options.svg, *svg); !s.ok()) return s;
  }
  if (options.json) {
    fmt::print("{}", scale::WhatIfJson(axes, points));
  } else {
    fmt::print("{}{}", HeadText(points.front().spec, options.seeds),
               scale::WhatIfText(axes, points));
  }
  return absl::OkStatus();
}

}  // namespace

void AddScaleCommand(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand(
      "scale", "a run in simulated time: many groups, faults, what-ifs; nothing is trained");
  command->add_option("spec", options->spec, "run spec with [compute] (docs/scale.md)")->required();
  command->add_option("--set", options->set, "override a key: outer.groups=1000")->take_all();
  command
      ->add_option("--sweep", options->sweep,
                   "a key and its values in turn: scale.mtbf_h=6,24,96; several: their product")
      ->take_all();
  command->add_option("--seeds", options->seeds, "seeds of the faults, from the spec's own on")
      ->check(CLI::Range(int64_t{1}, kMostSeeds));
  command->add_option("--csv", options->csv, "write every point and seed into this file");
  command->add_option("--svg", options->svg,
                      "draw goodput over the first --sweep, a line for each value of the others");
  command->add_flag("--json", options->json, "one JSON document on stdout");
  command->callback(Calling(RunScale, options, exit_status));
}

}  // namespace longhaul
