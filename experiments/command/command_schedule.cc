#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/schedule_best.h"
#include "experiments/record/whole_file.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "pp_group/schedule/check.h"
#include "pp_group/schedule/clock.h"

namespace longhaul {
namespace {

// One step of a pipeline as its ranks run it, and what it costs. Pure arithmetic.
struct SchedulePicture {
  std::string text;  // a line a rank, and what its letters mean
  std::string svg;   // a whole file; the same times, drawn
};

constexpr int kColumns = 100;

// Of a forward a digit, of a backward pass or its I a small letter, of W a large one: micro-batches
// count on from 0 after 9, or a after z.
char MarkOf(const Action& action) {
  const int m = action.microbatch;
  if (action.op == Op::kForward) return static_cast<char>('0' + m % 10);
  return static_cast<char>((action.op == Op::kWeightGradient ? 'A' : 'a') + m % 26);
}

// Lighter for a rank's later stages.
std::string ColourOf(const Action& action, int chunk) {
  static constexpr std::string_view kHues[] = {"214, 70%", "20, 75%", "34, 85%", "150, 45%"};
  const std::string_view hue = kHues[static_cast<size_t>(action.op)];
  return fmt::format("hsl({}, {}%)", hue, std::min(82, 52 + 14 * chunk));
}

std::string LinesOf(const std::vector<std::vector<ScheduleClock::Done>>& ranks, double end_s) {
  double shortest = end_s;
  for (const auto& done : ranks) {
    for (const ScheduleClock::Done& d : done) {
      if (d.end_s > d.begin_s) shortest = std::min(shortest, d.end_s - d.begin_s);
    }
  }
  // A column is no shorter than the shortest action needs, so that a small picture is exact.
  const double column_s = std::max(shortest, end_s / kColumns);
  std::string text;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string line(static_cast<size_t>(std::llround(std::ceil(end_s / column_s - 1e-9))), '.');
    for (const ScheduleClock::Done& d : ranks[rank]) {
      const auto from = static_cast<size_t>(std::llround(d.begin_s / column_s));
      const auto to = static_cast<size_t>(std::llround(d.end_s / column_s));
      for (size_t c = from; c < std::min(to, line.size()); ++c) line[c] = MarkOf(d.action);
    }
    text += fmt::format("rank {:<3} {}\n", rank, line);
  }
  return text;
}

std::string SvgOf(const PipelineProgram& program,
                  const std::vector<std::vector<ScheduleClock::Done>>& ranks, double end_s,
                  const std::string& title) {
  constexpr double kWidth = 1000, kRow = 26, kLeft = 60, kTop = 34;
  const double scale = kWidth / end_s;
  const double height = kTop + kRow * static_cast<double>(ranks.size()) + 34;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n<text x=\"{:.0f}\" y=\"20\" font-size=\"14\">{}</text>\n",
      kLeft + kWidth + 10, height, kLeft, title);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    const std::vector<int> held = program.StagesOf(static_cast<int>(rank));
    svg += fmt::format("<text x=\"8\" y=\"{:.1f}\">rank {}</text>\n", y + 16, rank);
    for (const ScheduleClock::Done& d : ranks[rank]) {
      const double width = (d.end_s - d.begin_s) * scale;
      if (width <= 0) continue;
      const auto at = std::find(held.begin(), held.end(), d.action.stage);
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" "
          "stroke=\"#fff\" stroke-width=\"0.5\"><title>{}: {:.6g} to {:.6g}</title></rect>\n",
          kLeft + d.begin_s * scale, y, width, kRow - 4,
          ColourOf(d.action, static_cast<int>(at - held.begin())), ToString(d.action), d.begin_s,
          d.end_s);
      if (width < 12) continue;
      svg += fmt::format(
          "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#fff\">{}</text>\n",
          kLeft + (d.begin_s + d.end_s) / 2 * scale, y + 15, d.action.microbatch);
    }
  }
  constexpr std::pair<Op, std::string_view> kLegend[] = {{Op::kForward, "forward"},
                                                         {Op::kBackward, "backward"},
                                                         {Op::kInputGradient, "input gradient"},
                                                         {Op::kWeightGradient, "weight gradient"}};
  double x = kLeft;
  for (const auto& [op, words] : kLegend) {
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.0f}\" "
        "y=\"{:.0f}\">{}</text>\n",
        x, height - 22, ColourOf({0, op, 0}, 0), x + 17, height - 12, words);
    x += 130;
  }
  return svg + "</svg>\n";
}

// `title` heads the drawing, as it is: no markup. Text is kColumns characters wide at most, plus the ranks' names.
// Errors: ScheduleClock's.
absl::StatusOr<SchedulePicture> DrawSchedule(const PipelineProgram& program,
                                             const PipelineCosts& costs, const std::string& title) {
  ScheduleClock clock(program, std::span(&costs, 1));
  RETURN_IF_ERROR(clock.Actions());
  double end_s = 0;
  for (const auto& rank : clock.done()) {
    if (!rank.empty()) end_s = std::max(end_s, rank.back().end_s);
  }
  if (!(end_s > 0)) return absl::InvalidArgumentError("schedule: no action takes any time");
  return SchedulePicture{.text = LinesOf(clock.done(), end_s) +
                                 "digits: forward of that micro-batch; a, b, ...: backward, or its "
                                 "input gradient; A, B, ...: weight gradient; .: waits\n",
                         .svg = SvgOf(program, clock.done(), end_s, title)};
}

struct ShowOptions {
  std::string name, csv, links, svg;
  int64_t stages = 4, microbatches = 8, chunks = 0, depth = 1;
  double forward_ms = 20, backward_ms = 40, message_kb = 131;
};

absl::Status PositiveOption(const char* option, double value) {
  if (value > 0 && value < 1e9) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {:g}; want more than 0 and less than 1e9", option, value));
}

// Of the pipeline alone: what a program is, without a model.
absl::StatusOr<RunSpec> ShapeSpec(const ShowOptions& o) {
  constexpr int64_t kMostStages = 1024, kMostActions = 1 << 16;
  if (o.stages < 1 || o.stages > kMostStages || o.microbatches < 1 ||
      o.microbatches > kMostActions / o.stages) {
    return absl::InvalidArgumentError(fmt::format(
        "-S {} -M {}: want 1 to {} stages, 1 or more micro-batches and a product of at most {}",
        o.stages, o.microbatches, kMostStages, kMostActions));
  }
  if (o.depth < 0 || o.depth > kMostActions) {
    return absl::InvalidArgumentError(
        fmt::format("--depth {}: want 0 to {} micro-batches", o.depth, kMostActions));
  }
  RunSpec spec{};
  spec.schedule = {.kind = o.name, .stages = o.stages, .chunks = o.chunks, .depth = o.depth};
  spec.schedule.csv = o.csv;
  spec.train.microbatches = o.microbatches;
  spec.train.batch_rows = o.microbatches;
  const bool is_csv = o.name == "csv";
  if (is_csv == o.csv.empty()) {
    return absl::InvalidArgumentError("a file is read as: schedule show csv --csv FILE");
  }
  if (spec.schedule.chunks == 0) {
    spec.schedule.chunks = 1;
    if (!is_csv) {
      ASSIGN_OR_RETURN(const Schedule schedule, FindSchedule(o.name));
      spec.schedule.chunks = schedule.least_chunks;
    }
  }
  if (spec.schedule.chunks < 1 || o.stages % spec.schedule.chunks != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--chunks {} (stages of a rank) does not divide -S {}", spec.schedule.chunks, o.stages));
  }
  return spec;
}

std::string ListOf(const std::vector<int>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

// What is drawn: costs of actions and messages, how they are told, and what a step of them takes.
struct ShownCosts {
  PipelineCosts costs;
  std::string times = "F 1, B 2, I 1, W 1; links take no time";
  std::string step = "";
};

absl::StatusOr<ShownCosts> CostsShown(const ShowOptions& o, const RunSpec& spec,
                                      const PipelineProgram& program) {
  if (o.links.empty()) {
    return ShownCosts{
        .costs = PipelineCosts::Of(
            program,
            {.forward_s = 1, .backward_s = 2, .input_gradient_s = 1, .weight_gradient_s = 1})};
  }
  ASSIGN_OR_RETURN(const OneLink link, LinkOfProfile(o.links));
  const auto chunks = static_cast<double>(spec.schedule.chunks);
  const double backward_s = o.backward_ms / 1e3 / chunks;
  const PipelineCosts costs =
      PipelineCosts::Of(program,
                        {.forward_s = o.forward_ms / 1e3 / chunks,
                         .backward_s = backward_s,
                         .input_gradient_s = backward_s - backward_s / 2,
                         .weight_gradient_s = backward_s / 2},
                        WireOf({o.message_kb * 1e3, link.rate_bit_per_s, link.one_way_delay_s}));
  ASSIGN_OR_RETURN(const double predicted, StepPeriod(program, costs));
  return ShownCosts{
      .costs = costs,
      .times = fmt::format(
          "a rank's F {:g} ms, B {:g} ms (I and W half each), messages of {:g} kB over '{}' ({:g} "
          "Mbit/s, {:g} ms round trip)",
          o.forward_ms, o.backward_ms, o.message_kb, o.links, link.rate_bit_per_s / 1e6,
          2e3 * link.one_way_delay_s),
      .step = fmt::format("step by P2, in the steady state: {:.4g} s; of it compute {:.4g} s\n",
                          predicted, program.microbatches * (o.forward_ms + o.backward_ms) / 1e3)};
}

absl::Status ShowSchedule(const ShowOptions& o) {
  for (const auto& [option, value] : {std::pair("--forward-ms", o.forward_ms),
                                      {"--backward-ms", o.backward_ms},
                                      {"--message-kb", o.message_kb}}) {
    RETURN_IF_ERROR(PositiveOption(option, value));
  }
  ASSIGN_OR_RETURN(const RunSpec spec, ShapeSpec(o));
  ASSIGN_OR_RETURN(const PipelineProgram program, PipelineOf(spec));
  ASSIGN_OR_RETURN(const ShownCosts shown, CostsShown(o, spec, program));
  const std::string title = fmt::format(
      "{}: S = {}, {} ranks, M = {}{}", o.name, program.num_stages(), program.num_ranks(),
      program.microbatches, o.name == "1f1b-deep" ? fmt::format(", depth {}", o.depth) : "");
  ASSIGN_OR_RETURN(const SchedulePicture picture,
                   DrawSchedule(program, shown.costs, title + "; " + shown.times));
  std::vector<int> peaks, sends;
  for (const Program& own : program.ranks) peaks.push_back(PeakActivations(own));
  for (size_t rank = 0; rank < program.ahead.size(); ++rank) peaks[rank] = program.ahead[rank] + 1;
  for (const RankCommunication& rank : Communication(program)) {
    sends.push_back(static_cast<int>(rank.sends.size()));
  }
  fmt::print("{}\n{}\n\n{}\n", title, shown.times, picture.text);
  fmt::print("bubble where links take no time: {:.4g} with F 1 and B 2\n",
             BubbleFraction(program, /*backward_units=*/2));
  fmt::print("most activations live, by rank: {}{}\n", ListOf(peaks),
             spec.schedule.chunks > 1
                 ? fmt::format(", of 1/{} of the rank's model each", spec.schedule.chunks)
                 : "");
  fmt::print("messages sent in a step, by rank: {}\n{}", ListOf(sends), shown.step);
  if (const auto found = FindSchedule(o.name); found.ok()) {
    fmt::print("{} ({})\n", found->what, found->source);
  }
  return o.svg.empty() ? absl::OkStatus() : WriteWholeFile(o.svg, picture.svg);
}

}  // namespace

void AddScheduleCommand(CLI::App& app, int* exit_status) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "Draw schedules, rank them for links, and balance stages");
  schedule->group("Plan");
  schedule->require_subcommand(1);
  auto show = std::make_shared<ShowOptions>();
  CLI::App* s = schedule->add_subcommand("show", "Draw one step of a schedule as text and SVG");
  s->footer("Example:\n  longhaul schedule show 1f1b -S 4 -M 8 --links continental-us");
  s->add_option("name", show->name, "Name of the schedule, or csv")->required();
  s->add_option("-S,--stages", show->stages, "Stages of the model")->capture_default_str();
  s->add_option("-M,--microbatches", show->microbatches, "Micro-batches per step")
      ->capture_default_str();
  s->add_option("--chunks", show->chunks, "Stages per rank [default: the fewest it is made for]");
  s->add_option("--depth", show->depth, "Depth of 1f1b-deep")->capture_default_str();
  s->add_option("--csv", show->csv, "Schedule file of torch, for the name csv");
  s->add_option("--links", show->links, "Predict the step (P2) over this link profile");
  s->add_option("--forward-ms", show->forward_ms,
                "Forward time of a micro-batch on a rank, with --links")
      ->capture_default_str();
  s->add_option("--backward-ms", show->backward_ms,
                "Backward time of a micro-batch on a rank, with --links")
      ->capture_default_str();
  s->add_option("--message-kb", show->message_kb, "Size of a tensor that crosses, with --links")
      ->capture_default_str();
  s->add_option("--svg", show->svg, "Write the drawing as SVG");
  s->callback(Calling(ShowSchedule, show, exit_status));
  AddScheduleBest(*schedule, exit_status);
  AddScheduleCuts(*schedule, exit_status);
  schedule->footer(
      "Example:\n  longhaul schedule best experiments/specs/shaped.toml --links regional");
}

}  // namespace longhaul
