#include "experiments/estimates/schedule_picture.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace longhaul {
namespace {

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

std::string LinesOf(const std::vector<std::vector<Timeline::Done>>& ranks, double end_s,
                    int columns) {
  double shortest = end_s;
  for (const auto& done : ranks) {
    for (const Timeline::Done& d : done) {
      if (d.end_s > d.begin_s) shortest = std::min(shortest, d.end_s - d.begin_s);
    }
  }
  // A column is no shorter than the shortest action needs, so that a small picture is exact.
  const double column_s = std::max(shortest, end_s / columns);
  std::string text;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string line(static_cast<size_t>(std::llround(std::ceil(end_s / column_s - 1e-9))), '.');
    for (const Timeline::Done& d : ranks[rank]) {
      const auto from = static_cast<size_t>(std::llround(d.begin_s / column_s));
      const auto to = static_cast<size_t>(std::llround(d.end_s / column_s));
      for (size_t c = from; c < std::min(to, line.size()); ++c) line[c] = MarkOf(d.action);
    }
    text += fmt::format("rank {:<3} {}\n", rank, line);
  }
  return text;
}

std::string SvgOf(const PipelineProgram& program,
                  const std::vector<std::vector<Timeline::Done>>& ranks, double end_s,
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
    for (const Timeline::Done& d : ranks[rank]) {
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

}  // namespace

PipelineCosts UnitCosts(const PipelineProgram& program) {
  const size_t stages = program.rank_of_stage.size();
  return {
      .stages = std::vector<PipelineCosts::Stage>(
          stages, {.forward_s = 1, .backward_s = 2, .input_gradient_s = 1, .weight_gradient_s = 1}),
      .ranks = std::vector<PipelineCosts::Rank>(program.ranks.size()),
      .activations = std::vector<PipelineCosts::Wire>(stages),
      .gradients = std::vector<PipelineCosts::Wire>(stages)};
}

absl::StatusOr<SchedulePicture> DrawSchedule(const PipelineProgram& program,
                                             const PipelineCosts& costs, const std::string& title,
                                             int columns) {
  Timeline timeline(program, costs, Wires::kFullDuplex);
  const absl::StatusOr<std::vector<double>> ends = timeline.Step();
  if (!ends.ok()) return ends.status();
  double end_s = 0;
  for (const auto& rank : timeline.done()) {
    if (!rank.empty()) end_s = std::max(end_s, rank.back().end_s);
  }
  if (!(end_s > 0)) return absl::InvalidArgumentError("schedule: no action takes any time");
  return SchedulePicture{.text = LinesOf(timeline.done(), end_s, columns) +
                                 "digits: forward of that micro-batch; a, b, ...: backward, or its "
                                 "input gradient; A, B, ...: weight gradient; .: waits\n",
                         .svg = SvgOf(program, timeline.done(), end_s, title)};
}

}  // namespace longhaul
