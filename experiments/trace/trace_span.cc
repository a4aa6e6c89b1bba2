#include "experiments/trace/trace_span.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "pp_group/rank_span.h"

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

using nlohmann::ordered_json;

constexpr const char* kLaneNames[kTraceLanes] = {
    "steps", "compute", "send", "wait", "exchange", "exchange: wait", "encode", "decode", "link"};

std::string Microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// When something begins: a tenth of a nanosecond late, so that whoever multiplies the double by 1000 and
// cuts that off has this nanosecond and not the one before, in which the span before has not ended.
std::string Moment(int64_t ns) { return Microseconds(ns) + "1"; }

// One thread that spans are drawn on: none begins before the one before it has ended.
struct Thread {
  int id;
  int64_t free_ns;
};
using Lane = std::tuple<int, TraceLane, int>;  // rank, lane, peer

std::string NameOf(const Lane& lane, size_t thread) {
  const auto& [rank, kind, peer] = lane;
  std::string name = kLaneNames[static_cast<int>(kind)];
  if (kind == TraceLane::kLink) name += fmt::format(" {} > {}", rank, peer);
  return thread == 0 ? name : fmt::format("{} ({})", name, thread + 1);
}

// One exchange, as one rank has it.
struct OfRank {
  int64_t begun_ns = INT64_MAX, there_ns = INT64_MIN, told_ns = 0, waited_ns = 0, worked_ns = 0;
  int64_t took_ns() const { return (there_ns > begun_ns ? there_ns - begun_ns : 0) + told_ns; }
  int64_t cost_ns() const { return waited_ns + worked_ns; }
};

std::map<int, OfRank> ByRank(const std::vector<TraceSpan>& spans,
                             const std::pair<int64_t, int64_t>& exchange) {
  std::map<int, OfRank> ranks;
  for (const TraceSpan& s : spans) {
    if (std::pair(s.exchange, s.fragment) != exchange) continue;
    OfRank& own = ranks[s.rank];
    own.begun_ns = std::min(own.begun_ns, s.begin_ns);
    if (s.lane == TraceLane::kLink) {
      own.there_ns = std::max(own.there_ns, s.left_ns);
      OfRank& receiver = ranks[s.peer];
      receiver.there_ns = std::max(receiver.there_ns, s.end_ns);
    }
    const int64_t lasted = s.end_ns - s.begin_ns;
    if (s.lane == TraceLane::kExchange) own.worked_ns += lasted;
    if (s.lane == TraceLane::kExchangeWait) own.waited_ns += lasted;
    if (s.lane == TraceLane::kExchangeWait && s.what == kNormsOfStages) own.told_ns += lasted;
  }
  return ranks;
}

// Of the group that it cost most, the rank that it cost least.
OfRank TheOneThatCounts(const std::map<int, OfRank>& ranks, int ranks_of_group) {
  std::map<int, OfRank> groups;
  for (const auto& [rank, own] : ranks) {
    OfRank& least = groups.try_emplace(rank / ranks_of_group, own).first->second;
    if (own.cost_ns() < least.cost_ns()) least = own;
  }
  return std::max_element(
             groups.begin(), groups.end(),
             [](const auto& a, const auto& b) { return a.second.cost_ns() < b.second.cost_ns(); })
      ->second;
}

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

std::string ChromeTrace(const std::vector<TraceSpan>& spans,
                        const std::vector<std::string>& process_names,
                        const std::vector<std::pair<std::string, std::string>>& about) {
  int64_t start = spans.empty() ? 0 : spans.front().begin_ns;
  for (const TraceSpan& s : spans) start = std::min(start, s.begin_ns);
  std::vector<std::string> lines;
  const auto meta = [&](const char* what, int rank, int thread, const ordered_json& args) {
    lines.push_back(
        ordered_json({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", args}})
            .dump());
  };
  for (size_t rank = 0; rank < process_names.size(); ++rank) {
    meta("process_name", static_cast<int>(rank), 0, {{"name", process_names[rank]}});
    meta("process_sort_index", static_cast<int>(rank), 0, {{"sort_index", rank}});
  }
  std::map<Lane, std::vector<Thread>> threads;
  std::map<int, int> used;  // threads, by rank
  for (const TraceSpan& s : spans) {
    const Lane lane{s.rank, s.lane, s.peer};
    std::vector<Thread>& own = threads[lane];
    auto thread = std::find_if(own.begin(), own.end(),
                               [&](const Thread& t) { return t.free_ns <= s.begin_ns; });
    if (thread == own.end()) {
      const int id = ++used[s.rank];
      meta("thread_name", s.rank, id, {{"name", NameOf(lane, own.size())}});
      meta("thread_sort_index", s.rank, id, {{"sort_index", id}});
      thread = own.insert(own.end(), {id, 0});
    }
    thread->free_ns = s.end_ns;
    ordered_json args = ordered_json::object();
    if (s.bytes > 0) args["bytes"] = s.bytes;
    if (s.exchange > 0) args["exchange begun after step"] = s.exchange;
    if (s.exchange > 0) args["fragment"] = s.fragment;
    if (s.left_ns > 0) args["left_us"] = static_cast<double>(s.left_ns - start) / 1e3;
    lines.push_back(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
        ordered_json(s.what).dump(), kLaneNames[static_cast<int>(s.lane)], s.rank, thread->id,
        Moment(s.begin_ns - start), Microseconds(s.end_ns - s.begin_ns), args.dump()));
  }
  ordered_json other = ordered_json::object();
  for (const auto& [key, value] : about) other[key] = value;
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{},\n\"traceEvents\":[\n{}\n]}}\n",
      other.dump(), fmt::join(lines, ",\n"));
}

std::optional<ExposedTime> ExposedTimeOf(const std::vector<TraceSpan>& spans,
                                         const std::vector<std::pair<int64_t, int64_t>>& exchanges,
                                         int ranks_of_group) {
  ExposedTime sum;
  int64_t steps_ns = 0, exposed_ns = 0;
  std::map<int, int64_t> steps;  // by rank
  for (const TraceSpan& s : spans) {
    if (s.lane != TraceLane::kStep) continue;
    steps_ns += s.end_ns - s.begin_ns;
    ++steps[s.rank];
  }
  for (const auto& exchange : exchanges) {
    const std::map<int, OfRank> ranks = ByRank(spans, exchange);
    if (ranks.empty()) continue;
    const OfRank counts = TheOneThatCounts(ranks, ranks_of_group);
    ++sum.exchanges;
    sum.took_s += static_cast<double>(counts.took_ns()) * 1e-9;
    sum.waited_s += static_cast<double>(counts.waited_ns) * 1e-9;
    sum.worked_s += static_cast<double>(counts.worked_ns) * 1e-9;
    exposed_ns += counts.cost_ns();
  }
  if (sum.exchanges == 0) return std::nullopt;
  for (double* s : {&sum.took_s, &sum.waited_s, &sum.worked_s}) {
    *s /= static_cast<double>(sum.exchanges);
  }
  if (!steps.empty()) {
    const double of_a_rank = static_cast<double>(steps_ns) / static_cast<double>(steps.size());
    sum.step_s = (of_a_rank - static_cast<double>(exposed_ns)) * 1e-9 /
                 static_cast<double>(steps.begin()->second);
  }
  return sum;
}

std::string TextOf(const ExposedTime& e) {
  return fmt::format(
      "an exchange between groups takes {:.4g} s; exposed are {:.4g} s, {:.3g} % of a step of {:.4g} "
      "s: {:.4g} s of waiting and {:.4g} s of coding and applying (mean of {} in the trace)",
      e.took_s, e.exposed_s(), 100 * e.share(), e.step_s, e.waited_s, e.worked_s, e.exchanges);
}

}  // namespace longhaul
