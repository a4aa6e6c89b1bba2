#include "netem/lab_control/path_figures.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "netem/probes/verify_bounds.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

using nlohmann::json;

constexpr absl::Duration kTailBound = absl::Milliseconds(1);

double Ms(absl::Duration time) { return absl::ToDoubleMilliseconds(time); }

json Milliseconds(const RttSample& rtt) {
  return {{"nominal_ms", Ms(rtt.nominal)},
          {"min_ms", Ms(rtt.min)},
          {"median_ms", Ms(rtt.median)},
          {"mean_ms", Ms(rtt.mean)},
          {"p99_ms", Ms(rtt.p99)},
          {"max_ms", Ms(rtt.max)},
          {"sent", rtt.sent},
          {"received", rtt.received}};
}

json TraceFigures(const Topology& topology, const PathSpec& path) {
  const RateTrace& trace = *path.rate_trace;
  const RateRange second = RatesWithin(trace, topology.mtu, absl::Seconds(1));
  return {{"file", trace.file},
          {"length_s", absl::ToDoubleSeconds(LengthOf(trace))},
          {"mean_mbit", InMbit(MeanRate(trace, topology.mtu))},
          {"least_in_a_second_mbit", InMbit(second.least)},
          {"most_in_a_second_mbit", InMbit(second.most)},
          {"longest_wait_ms", Ms(LongestWait(trace))}};
}

}  // namespace

json AqmFigures(const QueueManagement& aqm) {
  return {{"kind", ToString(aqm.kind)},
          {"ecn", aqm.ecn},
          {"target_ms", Ms(aqm.target)},
          {"interval_ms", Ms(aqm.interval)}};
}

json LineJson(const LineCounters& line) {
  return {{"name", line.name},           {"direction", line.is_up ? "up" : "down"},
          {"packets", line.packets},     {"drops_queue", line.drops_queue},
          {"drops_aqm", line.drops_aqm}, {"ecn_marks", line.ecn_marks}};
}

json PathFigures(const Topology& topology, const PathSpec& path) {
  const auto rate = NominalRate(topology, path);
  json figures = {{"from", topology.nodes[path.from].name},
                  {"to", topology.nodes[path.to].name},
                  {"rate_mbit", nullptr},
                  {"delay_ms", Ms(path.delay)},
                  {"jitter_ms", Ms(path.jitter)},
                  {"loss", MeanLoss(path)},
                  {"queue_packets", nullptr}};
  for (const PathFigure& figure : PathFigureTable()) {
    const std::string word(figure.word);
    if (figure.share != nullptr && !figures.contains(word)) figures[word] = figure.ShareOf(path);
  }
  if (path.rate) figures["queue_packets"] = PathQueuePackets(topology, path);
  if (rate) figures["rate_mbit"] = InMbit(*rate);
  if (path.rate_trace != nullptr) figures["rate_trace"] = TraceFigures(topology, path);
  if (path.aqm.kind != QueueManagement::Kind::kDropTail) figures["aqm"] = AqmFigures(path.aqm);
  if (path.jitter_order == JitterOrder::kFree) figures["jitter_order"] = "free";
  return figures;
}

json VerdictJson(const Topology& topology, const VerifyOptions& options, const PathVerdict& verdict,
                 json figures) {
  json result = std::move(figures);
  const PathSpec& path = *FindPath(topology, verdict.from, verdict.to);
  result["in_bounds"] = verdict.ok;
  result["figures_in_bounds"] =
      verdict.ok;  // in_bounds less the tail, which a busy machine makes late
  result["why"] = verdict.why;
  if (verdict.rtt.sent > 0) {
    result["rtt"] = Milliseconds(verdict.rtt);
    const PathSpec* back = FindPath(topology, verdict.to, verdict.from);
    const absl::Duration jitter =
        path.jitter + (back == nullptr ? absl::ZeroDuration() : back->jitter);
    const absl::Duration bound = verdict.rtt.nominal + kTailBound + 3 * jitter +
                                 MostTraceWait(topology, verdict.from, verdict.to);
    result["tail_in_bounds"] = verdict.rtt.p99 <= bound;
    result["rtt"]["most_p99_ms"] = Ms(bound);
    if (back != nullptr && verdict.rtt.received > 0) {
      const RttBound median = BoundOfRtt(topology, options, path, verdict.rtt);
      result["rtt"]["least_median_ms"] = Ms(median.least);
      result["rtt"]["most_median_ms"] = Ms(median.most);
    }
    if (verdict.ok && verdict.rtt.p99 > bound) {
      result["in_bounds"] = false;
      result["why"] = fmt::format("round trip p99 {:.3f} ms, want at most {:.3f} ms",
                                  Ms(verdict.rtt.p99), Ms(bound));
    }
  }
  if (verdict.rate) {
    const std::string note = NoteOnRate(topology, path, *verdict.rate);
    if (!note.empty()) result["goodput_note"] = note;
    const RateRange bound = BoundOfRate(topology, options, path, *verdict.rate);
    result["goodput"] = {{"nominal_mbit", InMbit(verdict.rate->nominal_goodput)},
                         {"mbit", InMbit(verdict.rate->goodput)},
                         {"least_mbit", InMbit(bound.least)},
                         {"most_mbit", InMbit(bound.most)},
                         {"measured_s", absl::ToDoubleSeconds(verdict.rate->measured_for)},
                         {"how", verdict.rate->congestion_control}};
  }
  if (!verdict.not_judged.empty()) result["goodput_note"] = verdict.not_judged;
  if (verdict.loss) {
    result["datagrams"] = {{"sent", verdict.loss->sent},
                           {"received", verdict.loss->received},
                           {"loss", verdict.loss->loss()},
                           {"loss_bound", BoundOfLoss(path, *verdict.loss)}};
  }
  return result;
}

}  // namespace longhaul
