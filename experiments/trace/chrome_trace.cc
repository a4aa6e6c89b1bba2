#include "experiments/trace/chrome_trace.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace longhaul {
namespace {

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

}  // namespace

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

}  // namespace longhaul
