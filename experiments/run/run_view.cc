#include "experiments/run/run_view.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fmt/format.h>

#include "experiments/record/row_json.h"
#include "experiments/run/run_process.h"
#include "experiments/train/event_stream.h"

namespace longhaul {
namespace {

// For a step and its checkpoint, once it was asked to stop.
constexpr int kTimeToStopMs = 60'000;

absl::Status Killed(RunProcess& process) {
  process.Kill();
  return absl::CancelledError("interrupted; what had been recorded is kept");
}

absl::Status Follow(RunProcess& process, bool checkpoints, const CancelSignal& cancel,
                    RunRecorder& recorder, RunView& view, Trace* trace) {
  bool asked = false;
  for (;;) {
    pollfd fds[2] = {{process.events_fd(), POLLIN, 0}, {cancel.fd(), POLLIN, 0}};
    const int ready = poll(fds, 2, asked ? kTimeToStopMs : -1);
    if (ready < 0 && errno != EINTR) return absl::InternalError("poll failed");
    if (ready == 0) return Killed(process);
    if (fds[1].revents != 0) {
      if (asked || cancel.Take() != SIGTERM || !checkpoints || !process.AskToStop()) {
        return Killed(process);
      }
      asked = true;
      continue;
    }
    if (fds[0].revents == 0) continue;
    absl::StatusOr<EventReader::More> more = process.Read([&](const nlohmann::json& event) {
      recorder.Observe(event);
      view.Observe(event);
      if (trace != nullptr) trace->Observe(event);
    });
    if (!more.ok()) return more.status();
    if (absl::Status s = recorder.Flush(); !s.ok()) return s;
    if (*more == EventReader::More::kYes) continue;
    const absl::Status ended = process.Finish();
    if (!asked || std::string(ended.message()).find(kAskedToStop) == std::string::npos) {
      return ended;
    }
    return absl::CancelledError(ended.message());
  }
}

}  // namespace

void Pace::Observe(absl::Duration now, double done) {
  last_ = Seen{now, done};
  if (!first_) first_ = last_;
}

std::optional<double> Pace::per_second() const {
  if (!first_ || last_->at <= first_->at || last_->done <= first_->done) return std::nullopt;
  return (last_->done - first_->done) / absl::ToDoubleSeconds(last_->at - first_->at);
}

std::optional<absl::Duration> Pace::Left(double total) const {
  const std::optional<double> pace = per_second();
  if (!pace) return std::nullopt;
  return absl::Seconds(std::max(0.0, total - last_->done) / *pace);
}

std::string RoughTime(absl::Duration time) {
  if (time < absl::Seconds(100)) {
    return fmt::format("{:.0f} s", std::max(1.0, absl::ToDoubleSeconds(time)));
  }
  if (time < absl::Minutes(100)) return fmt::format("{:.0f} min", absl::ToDoubleMinutes(time));
  return fmt::format("{:.1f} h", absl::ToDoubleHours(time));
}

RunView::RunView(const RunSpec& spec, std::FILE* out, const Clock& clock)
    : steps_(spec.program ? 0 : Steps(spec)),
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

void RunView::Observe(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "fact") {
    const nlohmann::json& value = event["value"];
    Line(fmt::format("  {:<26} {}", event.value("key", ""),
                     value.is_string() ? value.get<std::string>() : value.dump()));
  } else if (kind == "link") {
    const LinkRow link = RowFrom<LinkRow>(event);
    std::string rate;
    if (link.goodput_bit_per_s) {
      rate = fmt::format(", goodput {:.2f} of {:.2f} Mbit/s", *link.goodput_bit_per_s / 1e6,
                         link.nominal_goodput_bit_per_s.value_or(0) / 1e6);
    }
    Line(fmt::format("  link {} > {} {:<6}         RTT {:.2f} of {:.2f} ms{}, {} drops  {}",
                     link.src_node, link.dst_node, ToString(link.phase),
                     link.rtt_median_s.value_or(0) * 1e3, link.nominal_rtt_s * 1e3, rate,
                     link.queue_drops, link.ok ? "ok" : "OUT OF BOUNDS: " + link.why));
  } else if (kind == "evaluation") {
    const EvaluationRow e = RowFrom<EvaluationRow>(event);
    // A program tells no tokens, and its error only where it knows it.
    const std::string over = e.tokens == 0 ? "" : fmt::format(" over {} tokens", e.tokens);
    const std::string error =
        e.standard_error_nat == 0 && over.empty()
            ? ""
            : fmt::format(" (+-{:.4f} standard error{})", e.standard_error_nat, over);
    Line(fmt::format("  held-out loss, codec {:<3}      {:.4f} nat/token{}", ToString(e.codec),
                     e.loss_nat, error));
  } else if (kind == "step" && steps_ > 0) {  // a program's come all at once, at its end
    SeeStep(event);
  }
}

void RunView::SeeStep(const nlohmann::json& event) {
  const StepRow row = RowFrom<StepRow>(event);
  if (row.stage != last_stage_) return;
  if (row.loss_nat) {
    loss_[static_cast<int>(row.group_index)] = std::isfinite(*row.loss_nat)
                                                   ? fmt::format("{:.4f}", *row.loss_nat)
                                                   : std::string("not a number");
  }
  const int64_t step = row.step;
  const absl::Duration now = clock_.Now();
  pace_.Observe(now, static_cast<double>(step));
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

absl::Status FollowRun(const RunSpec& spec, const std::string& checkpoint_directory,
                       const CancelSignal& cancel, RunRecorder& recorder, RunView& view,
                       Trace* trace) {
  absl::StatusOr<std::unique_ptr<RunProcess>> process =
      RunProcess::Start(spec, checkpoint_directory);
  absl::Status outcome =
      process.ok() ? Follow(**process, !checkpoint_directory.empty(), cancel, recorder, view, trace)
                   : process.status();
  view.End();
  return recorder.Finish(outcome);
}

}  // namespace longhaul
