#include "experiments/train/trace_recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// Of a tensor that was there already: nothing was waited for.
constexpr absl::Duration kNoWait = absl::Microseconds(1);

TraceLane LaneOf(RankSpan::Kind kind) {
  switch (kind) {
    case RankSpan::Kind::kCompute:
      return TraceLane::kCompute;
    case RankSpan::Kind::kSend:
      return TraceLane::kSend;
    case RankSpan::Kind::kWait:
      return TraceLane::kWait;
    case RankSpan::Kind::kExchange:
      return TraceLane::kExchange;
    case RankSpan::Kind::kExchangeWait:
      break;
  }
  return TraceLane::kExchangeWait;
}

std::string NameOf(const RankSpan& span) {
  if (!span.action) return span.doing;
  const std::string action = ToString(*span.action);
  return *span.doing == '\0' ? action : absl::StrCat(action, ": ", span.doing);
}

}  // namespace

SpanWatch TraceRecorder::SpansOf(int rank) {
  return [self = shared_from_this(), rank](const RankSpan& span) {
    if (!self->wanted_) return;
    if (span.kind == RankSpan::Kind::kWait && span.end - span.begin < kNoWait) return;
    const std::lock_guard<std::mutex> lock(self->mu_);
    self->spans_.push_back({.rank = rank,
                            .lane = LaneOf(span.kind),
                            .what = NameOf(span),
                            .begin_ns = absl::ToInt64Nanoseconds(span.begin),
                            .end_ns = absl::ToInt64Nanoseconds(span.end),
                            .exchange = span.exchange,
                            .fragment = span.fragment});
  };
}

void TraceRecorder::Message(const MessageTimes& times, int own, int other,
                            const std::string& channel, std::string what) {
  const std::lock_guard<std::mutex> lock(mu_);
  if (times.coding > absl::ZeroDuration()) {  // drawn in one piece, which ends when its last did
    spans_.push_back({.rank = own,
                      .lane = times.sent ? TraceLane::kEncode : TraceLane::kDecode,
                      .what = what,
                      .begin_ns = absl::ToInt64Nanoseconds(times.coded - times.coding),
                      .end_ns = absl::ToInt64Nanoseconds(times.coded)});
  }
  ends_.push_back({.from = times.sent ? own : other,
                   .to = times.sent ? other : own,
                   .sent = times.sent,
                   .channel = absl::StrCat(channel, times.collective ? " c" : " t", times.tag),
                   .sequence = times.sequence,
                   .bytes = times.bytes,
                   .at_ns = absl::ToInt64Nanoseconds(times.at),
                   .what = std::move(what)});
}

void TraceRecorder::WatchGroups(const LocalTelemetry& rank) {
  const auto self = shared_from_this();
  const int ranks = rank.boundary->getSize(), first = rank.group * ranks, own = rank.rank;
  if (rank.lowest) {
    const std::string name = rank.boundary->group().options().name;
    rank.boundary->group().Watch([=, looped = rank.looped](const MessageTimes& m) {
      if (!self->wanted_) return;
      const bool from_below = m.sent == (own < first + m.peer);
      const bool activation = looped ? KindOfTag(m.tag) == TensorKind::kActivation : from_below;
      self->Message(m, own, first + m.peer, name,
                    absl::StrCat(activation ? "activation " : "gradient ",
                                 m.sequence % static_cast<uint64_t>(self->microbatches_)));
    });
    const std::string plain = rank.plain->group().options().name;
    rank.plain->group().Watch([=](const MessageTimes& m) {
      if (self->wanted_) self->Message(m, own, first + m.peer, plain, "plain");
    });
  }
  if (rank.tied != nullptr) {
    const std::string name = rank.tied->group().options().name;
    rank.tied->group().Watch([=, other = first + rank.tied_peer](const MessageTimes& m) {
      if (self->wanted_) self->Message(m, own, other, name, "tied head");
    });
  }
  if (rank.outer == nullptr) return;
  const std::string name = rank.outer->group().options().name;
  rank.outer->group().Watch(
      [=, groups = rank.outer_groups, stage = rank.stage](const MessageTimes& m) {
        if (!self->wanted_) return;
        const int group = groups.empty() ? m.peer : groups[static_cast<size_t>(m.peer)];
        self->Message(m, own, group * ranks + own % ranks, name,
                      absl::StrCat("exchange, stage ", stage));
      });
}

void TraceRecorder::BeginStep(int64_t step) {
  wanted_ = step >= steps_.first && step <= steps_.last;
}

void TraceRecorder::Add(std::vector<TraceSpan> spans) {
  const std::lock_guard<std::mutex> lock(mu_);
  for (TraceSpan& span : spans) spans_.push_back(std::move(span));
}

void TraceRecorder::AddStep(const std::vector<LocalTelemetry>& ranks, int64_t step,
                            absl::Duration begin, absl::Duration end) {
  std::vector<TraceSpan> spans;
  for (const LocalTelemetry& rank : ranks) {
    if (!rank.lowest) continue;
    spans.push_back({.rank = rank.rank,
                     .lane = TraceLane::kStep,
                     .what = StepSpanName(step),
                     .begin_ns = absl::ToInt64Nanoseconds(begin),
                     .end_ns = absl::ToInt64Nanoseconds(end)});
  }
  Add(std::move(spans));
}

void TraceRecorder::EndStep(int64_t step, EventSink& sink) {
  if (step != steps_.last) return;
  wanted_ = false;
  std::vector<TraceSpan> spans;
  std::vector<MessageEnd> ends;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    spans.swap(spans_);
    ends.swap(ends_);
  }
  for (const nlohmann::json& event : EventsOf(spans, ends)) sink.Emit(event);
}

}  // namespace longhaul
