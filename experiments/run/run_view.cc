#include "experiments/run/run_view.h"

#include <unistd.h>

#include <fmt/format.h>

namespace longhaul {

RunView::RunView(const RunSpec& spec, std::FILE* out, const Clock& clock)
    : steps_(Steps(spec)),
      last_stage_(static_cast<int>(spec.schedule.stages) - 1),
      out_(out),
      terminal_(isatty(fileno(out)) == 1),
      clock_(clock) {}

void RunView::Line(const std::string& text) {
  End();
  fmt::print(out_, "{}\n", text);
  std::fflush(out_);
}

void RunView::End() {
  if (in_progress_line_) fmt::print(out_, "\n");
  in_progress_line_ = false;
}

void RunView::See(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "fact") {
    const nlohmann::json& value = event["value"];
    Line(fmt::format("  {:<26} {}", event.value("key", ""),
                     value.is_string() ? value.get<std::string>() : value.dump()));
  } else if (kind == "link") {
    std::string rate;
    if (event.contains("goodput_bit_per_s")) {
      rate = fmt::format(", goodput {:.2f} of {:.2f} Mbit/s",
                         event.value("goodput_bit_per_s", 0.0) / 1e6,
                         event.value("goodput_nominal_bit_per_s", 0.0) / 1e6);
    }
    Line(fmt::format("  link {} > {} {:<6}         RTT {:.2f} of {:.2f} ms{}, {} drops  {}",
                     event.value("from", -1), event.value("to", -1), event.value("phase", ""),
                     event.value("rtt_median_s", 0.0) * 1e3,
                     event.value("rtt_nominal_s", 0.0) * 1e3, rate,
                     event.value("drops_queue", int64_t{0}),
                     event.value("ok", false) ? "ok" : "OUT OF BOUNDS: " + event.value("why", "")));
  } else if (kind == "evaluation") {
    Line(
        fmt::format("  held-out loss, codec {:<3}      {:.4f} nat/token (+-{:.4f} standard error "
                    "over {} tokens)",
                    event.value("codec", ""), event.value("loss", 0.0), event.value("se", 0.0),
                    event.value("tokens", int64_t{0})));
  } else if (kind == "step") {
    SeeStep(event);
  }
}

void RunView::SeeStep(const nlohmann::json& event) {
  if (event.value("stage", -1) != last_stage_) return;
  if (event.contains("loss")) {
    const nlohmann::json& loss = event["loss"];
    loss_[event.value("group", 0)] =
        loss.is_number() ? fmt::format("{:.4f}", loss.get<double>()) : std::string("not a number");
  }
  const int64_t step = event.value("step", int64_t{0});
  const absl::Duration now = clock_.Now();
  pace_.See(now, static_cast<double>(step));
  if (now - last_line_ < absl::Seconds(1) && step != steps_) return;
  last_line_ = now;
  std::string losses;
  for (const auto& [group, text] : loss_) losses += (losses.empty() ? "" : ", ") + text;
  std::string text = fmt::format("  step {}/{}", step, steps_);
  if (!losses.empty()) text += "  loss " + losses;
  if (const auto pace = pace_.per_second()) {
    text += fmt::format("  {:.3f} s/step", 1 / *pace);
    const absl::Duration left = *pace_.Left(static_cast<double>(steps_));
    if (step < steps_) text += fmt::format("  about {} of training left", RoughTime(left));
  }
  if (terminal_) {
    fmt::print(out_, "\r{:<90}", text);
    in_progress_line_ = true;
  } else {
    fmt::print(out_, "{}\n", text);
  }
  std::fflush(out_);
}

}  // namespace longhaul
