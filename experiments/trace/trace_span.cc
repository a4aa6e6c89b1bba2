#include "experiments/trace/trace_span.h"

#include <algorithm>
#include <utility>

namespace longhaul {
namespace {

using nlohmann::json;

constexpr size_t kLine = 3500;       // bytes; a pipe takes 4096 at once
constexpr size_t kLongestName = 80;  // of what a span says it is

// Lines of as many of `rows` as fit into each.
void AddLines(const char* event, std::vector<json> rows, std::vector<json>* lines) {
  json line = {{"event", event}, {"rows", json::array()}};
  size_t bytes = 0;
  for (json& row : rows) {
    const size_t own = row.dump().size() + 1;
    if (bytes > 0 && bytes + own > kLine) {
      lines->push_back(std::exchange(line, {{"event", event}, {"rows", json::array()}}));
      bytes = 0;
    }
    line["rows"].push_back(std::move(row));
    bytes += own;
  }
  if (bytes > 0) lines->push_back(std::move(line));
}

json RowOf(const TraceSpan& s) {
  return {s.rank,
          static_cast<int>(s.lane),
          s.what.substr(0, kLongestName),
          s.begin_ns,
          s.end_ns,
          s.exchange,
          s.fragment,
          s.peer,
          s.bytes,
          s.left_ns};
}

TraceSpan SpanOf(const json& row) {
  return {.rank = row[0].get<int>(),
          .lane = static_cast<TraceLane>(row[1].get<int>()),
          .what = row[2].get<std::string>(),
          .begin_ns = row[3].get<int64_t>(),
          .end_ns = row[4].get<int64_t>(),
          .exchange = row[5].get<int64_t>(),
          .fragment = row[6].get<int64_t>(),
          .peer = row[7].get<int>(),
          .bytes = row[8].get<int64_t>(),
          .left_ns = row[9].get<int64_t>()};
}

auto Place(const TraceSpan& s) { return std::tuple(s.rank, s.lane, s.peer, s.begin_ns, s.end_ns); }

}  // namespace

std::vector<json> EventsOf(const std::vector<TraceSpan>& spans,
                           const std::vector<MessageEnd>& ends) {
  std::vector<json> lines, rows;
  for (const TraceSpan& span : spans) rows.push_back(RowOf(span));
  AddLines("spans", std::exchange(rows, {}), &lines);
  for (const MessageEnd& e : ends) {
    rows.push_back({e.from, e.to, e.sent, e.channel.substr(0, kLongestName), e.sequence, e.bytes,
                    e.at_ns, e.what.substr(0, kLongestName)});
  }
  AddLines("message_ends", std::move(rows), &lines);
  return lines;
}

void Trace::Observe(const json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "spans") {
    for (const json& row : event["rows"]) spans_.push_back(SpanOf(row));
  }
  if (kind != "message_ends") return;
  for (const json& row : event["rows"]) {
    Ends& ends = ends_[Key(row[0].get<int>(), row[1].get<int>(), row[3].get<std::string>(),
                           row[4].get<uint64_t>())];
    (row[2].get<bool>() ? ends.sent_ns : ends.arrived_ns) = row[6].get<int64_t>();
    ends.bytes = row[5].get<int64_t>();
    ends.what = row[7].get<std::string>();
  }
}

std::vector<TraceSpan> Trace::Spans() const {
  std::vector<TraceSpan> spans = spans_;
  std::vector<TraceSpan> exchanges;
  for (const TraceSpan& s : spans_) {
    if (s.lane == TraceLane::kExchange) exchanges.push_back(s);
  }
  std::sort(exchanges.begin(), exchanges.end(),
            [](const TraceSpan& a, const TraceSpan& b) { return Place(a) < Place(b); });
  for (const auto& [key, ends] : ends_) {
    const auto& [from, to, channel, sequence] = key;
    if (ends.sent_ns < 0 || ends.arrived_ns < 0) continue;
    TraceSpan link{.rank = from,
                   .lane = TraceLane::kLink,
                   .what = ends.what,
                   .begin_ns = ends.sent_ns,
                   .end_ns = std::max(ends.sent_ns, ends.arrived_ns),
                   .peer = to,
                   .bytes = ends.bytes};
    if (channel.starts_with("outer")) {
      for (const TraceSpan& s : exchanges) {
        if (s.rank != from || s.begin_ns > link.begin_ns) continue;
        link.exchange = s.exchange;
        link.fragment = s.fragment;
      }
    }
    spans.push_back(std::move(link));
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return Place(a) < Place(b); });
  return spans;
}

int Trace::RanksThatEnded(int64_t step) const {
  return static_cast<int>(std::count_if(spans_.begin(), spans_.end(), [&](const TraceSpan& s) {
    return s.lane == TraceLane::kStep && s.what == StepSpanName(step);
  }));
}

std::string StepSpanName(int64_t step) { return "step " + std::to_string(step); }

}  // namespace longhaul
