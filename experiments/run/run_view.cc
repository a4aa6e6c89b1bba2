#include "experiments/run/run_view.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
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
    ASSIGN_OR_RETURN(EventReader::More more, process.Read([&](const nlohmann::json& event) {
      recorder.Observe(event);
      view.Observe(event);
      if (trace != nullptr) trace->Observe(event);
    }));
    RETURN_IF_ERROR(recorder.Flush());
    if (more == EventReader::More::kYes) continue;
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

std::string WorstOfLinks(std::span<const LinkRow> links) {
  const auto path = [](const LinkRow& l) { return fmt::format("{} > {}", l.src_node, l.dst_node); };
  const LinkRow *rtt = nullptr, *rate = nullptr, *drops = &links.front();
  const auto slowness = [](const LinkRow& l) { return *l.rtt_median_s / l.nominal_rtt_s; };
  const auto fullness = [](const LinkRow& l) {
    return *l.goodput_bit_per_s / *l.nominal_goodput_bit_per_s;
  };
  size_t ok = 0;
  std::string bad;
  for (const LinkRow& l : links) {
    if (l.rtt_median_s && (rtt == nullptr || slowness(l) > slowness(*rtt))) rtt = &l;
    if (l.goodput_bit_per_s && l.nominal_goodput_bit_per_s &&
        (rate == nullptr || fullness(l) < fullness(*rate))) {
      rate = &l;
    }
    if (l.queue_drops > drops->queue_drops) drops = &l;
    if (l.ok) {
      ++ok;
    } else if (bad.size() < 3 * 100) {
      bad += fmt::format("\n    link {} OUT OF BOUNDS: {}", path(l), l.why);
    }
  }
  std::string worst;
  if (rtt != nullptr) {
    worst += fmt::format(" RTT {:.2f} of {:.2f} ms ({}),", *rtt->rtt_median_s * 1e3,
                         rtt->nominal_rtt_s * 1e3, path(*rtt));
  }
  if (rate != nullptr) {
    worst += fmt::format(" goodput {:.2f} of {:.2f} Mbit/s ({}),", *rate->goodput_bit_per_s / 1e6,
                         *rate->nominal_goodput_bit_per_s / 1e6, path(*rate));
  }
  worst += fmt::format(" {} drops", drops->queue_drops);
  if (drops->queue_drops > 0) worst += fmt::format(" ({})", path(*drops));
  return fmt::format("{} of {} paths ok; worst:{}{}", ok, links.size(), worst, bad);
}

namespace {

// "2 groups x 2 stages, 4 workers on continental-us".
std::string WhatRuns(const RunSpec& spec) {
  if (spec.program) return fmt::format("{} ranks of a program", spec.workers());
  const auto count = [](int64_t n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  const std::string shape =
      count(spec.outer.groups, "group") + " x " + count(spec.stages(), "stage");
  if (spec.net.transport == "loopback") return shape + " in one process";
  return fmt::format("{}, {} workers on {}", shape, spec.workers(), spec.net.profile);
}

// What the line about the place says, of a run's facts.
constexpr std::pair<const char*, const char*> kWhere[] = {
    {"emulator", "emulator "},      {"engine", "engine "},    {"device", "device "}, {"dtype", ""},
    {"cpu_path_codecs", "codecs "}, {"coded_on", "coded on "}};

// Facts that a person needs to know at once.
bool IsNews(std::string_view key) {
  return key == kSimulatedClockFact || key.starts_with("checkpoint_passed_over") ||
         key == "restored_changes" || key == "restored_without";
}

}  // namespace

RunView::RunView(const RunSpec& spec, std::FILE* out, const Clock& clock, Detail detail)
    : what_(WhatRuns(spec)),
      steps_(spec.program ? 0 : Steps(spec)),
      last_stage_(static_cast<int>(spec.schedule.stages) - 1),
      out_(out),
      terminal_(isatty(fileno(out)) == 1),
      detail_(detail),
      clock_(clock) {}

void RunView::Line(const std::string& text) {
  if (in_progress_line_) fmt::print(out_, "\n");
  in_progress_line_ = false;
  fmt::print(out_, "{}\n", text);
  std::fflush(out_);
}

void RunView::ShowWhere() {
  if (std::exchange(where_shown_, true) || detail_ == Detail::kAll) return;
  std::string text = "  " + what_;
  for (const auto& [key, before] : kWhere) {
    if (where_.contains(key)) text += fmt::format(", {}{}", before, where_[key]);
  }
  Line(text);
}

// What waited for more of its kind.
void RunView::Settle() {
  if (!last_step_.empty()) Line(std::exchange(last_step_, ""));
  if (links_.empty()) return;
  if (links_.front().phase == LinkPhase::kAfter) ShowWhere();
  Line(fmt::format("  links {}: {}", ToString(links_.front().phase), WorstOfLinks(links_)));
  links_.clear();
}

void RunView::End() {
  Settle();
  if (in_progress_line_) fmt::print(out_, "\n");
  in_progress_line_ = false;
}

void RunView::SeeFact(const std::string& key, const std::string& value) {
  if (detail_ == Detail::kAll) {
    Line(fmt::format("  {:<26} {}", key, value));
  } else if (IsNews(key)) {  // every rank may say it
    if (said_.insert(value).second) Line(fmt::format("  {}: {}", key, value));
  } else {
    where_[key] = value;
  }
}

void RunView::SeeLink(const LinkRow& link) {
  if (detail_ == Detail::kScreen) {
    if (!links_.empty() && links_.front().phase != link.phase) Settle();
    links_.push_back(link);
    return;
  }
  std::string rate;
  if (link.goodput_bit_per_s) {
    rate = fmt::format(", goodput {:.2f} of {:.2f} Mbit/s", *link.goodput_bit_per_s / 1e6,
                       link.nominal_goodput_bit_per_s.value_or(0) / 1e6);
  }
  Line(fmt::format("  link {} > {} {:<6}         RTT {:.2f} of {:.2f} ms{}, {} drops  {}",
                   link.src_node, link.dst_node, ToString(link.phase),
                   link.rtt_median_s.value_or(0) * 1e3, link.nominal_rtt_s * 1e3, rate,
                   link.queue_drops, link.ok ? "ok" : "OUT OF BOUNDS: " + link.why));
}

void RunView::Observe(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "fact") {
    const nlohmann::json& value = event["value"];
    SeeFact(event.value("key", ""), value.is_string() ? value.get<std::string>() : value.dump());
  } else if (kind == "link") {
    SeeLink(RowFrom<LinkRow>(event));
  } else if (kind == "evaluation") {
    Settle();
    ShowWhere();
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
  if (!terminal_ && step < next_step_) return;
  const int64_t tenth = (steps_ + 9) / 10;
  next_step_ = next_step_ == 0 ? step + 1 : (step / tenth + 1) * tenth;
  last_line_ = now;
  if (step != steps_) Settle();
  ShowWhere();
  constexpr size_t kMostLosses = 4;
  std::string losses;
  for (const auto& [group, text] : loss_) {
    if (losses.size() > kMostLosses * std::string_view("3.1234, ").size()) {
      losses += fmt::format(", ... of {} groups", loss_.size());
      break;
    }
    losses += (losses.empty() ? "" : ", ") + text;
  }
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
  } else if (step == steps_) {
    last_step_ = text;
  } else {
    Line(text);
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
