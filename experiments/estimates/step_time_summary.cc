#include "experiments/estimates/step_time_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/step_time.h"
#include "experiments/spec/plans_of_spec.h"

namespace longhaul {
namespace {

// Steps in order, each with the rows of all workers, the first tenth left out; those in which
// groups met, or the others.
std::vector<std::vector<const StepRow*>> SteadySteps(const std::vector<StepRow>& rows,
                                                     bool outer_synced) {
  std::map<int64_t, std::vector<const StepRow*>> by_step;
  for (const StepRow& row : rows) by_step[row.step].push_back(&row);
  const size_t skip = (by_step.size() + 9) / 10;
  std::vector<std::vector<const StepRow*>> steady;
  size_t at = 0;
  for (auto& [step, workers] : by_step) {
    const bool synced = std::any_of(workers.begin(), workers.end(),
                                    [](const StepRow* row) { return row->outer_synced; });
    if (at++ >= skip && synced == outer_synced) steady.push_back(std::move(workers));
  }
  return steady;
}

template <typename Field>
double MeanOf(const std::vector<const StepRow*>& workers, Field field) {
  double sum = 0;
  for (const StepRow* row : workers) sum += field(*row);
  return sum / static_cast<double>(workers.size());
}

// What a rank does beside its stages' passes, of one step: coding, and what no column names.
struct RankRest {
  double encode_s = 0, decode_s = 0, other_s = 0;
};

// By group and rank, from the rows of the rank's stages, whose wall times are one.
std::map<std::pair<int64_t, int>, RankRest> RestsOf(const std::vector<const StepRow*>& workers,
                                                    const std::vector<int>& rank_of_stage) {
  std::map<std::pair<int64_t, int>, RankRest> rests;
  for (const StepRow* row : workers) {
    const int rank = rank_of_stage[static_cast<size_t>(row->stage)];
    const auto [at, fresh] = rests.try_emplace({row->group_index, rank});
    RankRest& rest = at->second;
    rest.encode_s += row->encode_s;
    rest.decode_s += row->decode_s;
    rest.other_s += (fresh ? row->wall_s : 0) - row->forward_s - row->backward_s -
                    row->optimizer_s - row->wait_s - row->outer_s;
  }
  return rests;
}

// Messages that a rank sends in a step; as many come.
std::vector<double> MessagesOf(const PipelineProgram& program) {
  std::vector<double> messages;
  for (const RankCommunication& rank : Communication(program)) {
    messages.push_back(std::max<double>(1, static_cast<double>(rank.sends.size())));
  }
  return messages;
}

// Costs of the stages from the median step of each; groups are averaged.
std::vector<StageCost> MeasuredCosts(const std::vector<std::vector<const StepRow*>>& steady,
                                     const PipelineProgram& program) {
  const double m = program.microbatches;
  std::vector<std::vector<double>> encode(program.ranks.size()), decode = encode, other = encode;
  for (const auto& workers : steady) {
    for (const auto& [place, rest] : RestsOf(workers, program.rank_of_stage)) {
      const auto rank = static_cast<size_t>(place.second);
      encode[rank].push_back(rest.encode_s);
      decode[rank].push_back(rest.decode_s);
      other[rank].push_back(std::max(0.0, rest.other_s));
    }
  }
  const std::vector<double> messages = MessagesOf(program);
  std::vector<StageCost> costs;
  for (int s = 0; s < program.num_stages(); ++s) {
    const auto rank = static_cast<size_t>(program.rank_of_stage[static_cast<size_t>(s)]);
    std::vector<double> forward, backward, optimizer;
    for (const auto& workers : steady) {
      for (const StepRow* row : workers) {
        if (row->stage != s) continue;
        forward.push_back(row->forward_s);
        backward.push_back(row->backward_s);
        optimizer.push_back(row->optimizer_s);
      }
    }
    const bool first = program.StagesOf(static_cast<int>(rank)).front() == s;
    costs.push_back({.forward_s = Median(forward) / m,
                     .backward_s = Median(backward) / m,
                     .encode_s = Median(encode[rank]) / messages[rank],
                     .decode_s = Median(decode[rank]) / messages[rank],
                     .optimizer_s = Median(optimizer),
                     .other_s = first ? Median(other[rank]) : 0});
  }
  return costs;
}

std::optional<BoundaryLink> LinkOf(const std::vector<LinkRow>& links,
                                   const std::vector<CrossingRow>& crossings, Direction direction,
                                   int64_t src, int64_t dst, double messages = 0) {
  BoundaryLink out{.message_bytes = 0,
                   .rate_bit_per_s = std::numeric_limits<double>::infinity(),
                   .one_way_delay_s = 0};
  bool linked = false, crossed = false;
  for (const LinkRow& link : links) {
    if (link.src_node != src || link.dst_node != dst) continue;
    linked = true;
    if (link.nominal_rate_bit_per_s) out.rate_bit_per_s = *link.nominal_rate_bit_per_s;
    out.one_way_delay_s = link.nominal_rtt_s / 2;
  }
  for (const CrossingRow& c : crossings) {
    if (c.direction != direction || c.src_rank != src || c.dst_rank != dst) continue;
    if (c.tensors == 0) continue;
    crossed = true;
    const double n = messages > 0 ? messages : static_cast<double>(c.tensors);
    out.message_bytes = static_cast<double>(c.message_bytes) / n;
  }
  if (!linked || !crossed) return std::nullopt;
  return out;
}

constexpr BoundaryLink kNoLink = {0, std::numeric_limits<double>::infinity(), 0};

// The pipeline of one group on its own links; costs are the mean of all groups.
std::optional<Pipeline> MeasuredPipeline(const RunSpec& spec, const PipelineProgram& program,
                                         int64_t group, std::vector<StageCost> costs,
                                         const std::vector<LinkRow>& links,
                                         const std::vector<CrossingRow>& crossings) {
  const auto node = [&](size_t stage) {
    return group * spec.ranks() + program.rank_of_stage[stage];
  };
  const int64_t first = node(0), last = node(program.rank_of_stage.size() - 1);
  Pipeline p{spec.schedule.kind, program.microbatches, std::move(costs), {}, {}};
  p.program = program;
  for (size_t s = 0; s + 1 < program.rank_of_stage.size(); ++s) {
    if (node(s) == node(s + 1)) {  // handed over where it is
      p.forward.push_back(kNoLink);
      p.backward.push_back(kNoLink);
      continue;
    }
    const auto there = LinkOf(links, crossings, Direction::kForward, node(s), node(s + 1));
    const auto back = LinkOf(links, crossings, Direction::kBackward, node(s + 1), node(s));
    if (!there || !back) return std::nullopt;
    p.forward.push_back(*there);
    p.backward.push_back(*back);
  }
  if (!spec.model.tied_head || first == last) return p;
  const auto there = LinkOf(links, crossings, Direction::kTied, first, last);
  const auto back = LinkOf(links, crossings, Direction::kTied, last, first);
  if (!there || !back) return std::nullopt;
  p.tied = {*there, *back};
  return p;
}

enum class Coding { kFree, kPaid };

Pipeline WithoutLinks(Pipeline p, Coding coding) {
  for (auto* links : {&p.forward, &p.backward}) {
    for (BoundaryLink& link : *links) link = kNoLink;
  }
  if (p.tied) p.tied = {kNoLink, kNoLink};
  for (StageCost& cost : p.stages) {
    if (coding == Coding::kFree) cost.encode_s = cost.decode_s = 0;
  }
  return p;
}

// Of a worker's step, its other work included: that is no waiting.
double MeanCompute(const std::vector<StageCost>& costs, int64_t ranks, int64_t microbatches) {
  double sum = 0;
  for (const StageCost& c : costs) {
    sum += static_cast<double>(microbatches) * (c.forward_s + c.backward_s) + c.optimizer_s +
           c.other_s;
  }
  return sum / static_cast<double>(ranks);
}

void AddOuter(int64_t chunks, const std::vector<StepRow>& steps, const std::vector<LinkRow>& links,
              const std::vector<CrossingRow>& crossings, StepTime& out) {
  std::vector<double> outer;
  std::map<int64_t, std::vector<double>> syncs;  // of every worker, by step
  for (const StepRow& row : steps) {
    if (!row.outer_synced) continue;
    outer.push_back(row.outer_s);
    syncs[row.step].push_back(row.outer_s);
  }
  if (outer.empty()) return;
  out.outer_measured_s = static_cast<double>(chunks) * Mean(outer);
  out.outer_steps = static_cast<int64_t>(syncs.size());
  out.outer_least_s = std::numeric_limits<double>::infinity();
  for (const auto& [step, of_workers] : syncs) {
    const double mean_s = static_cast<double>(chunks) * Mean(of_workers);
    out.outer_least_s = std::min(out.outer_least_s, mean_s);
    out.outer_most_s = std::max(out.outer_most_s, mean_s);
  }
  for (const CrossingRow& c : crossings) {
    if (c.direction != Direction::kOuter) continue;
    const auto link = LinkOf(links, {c}, Direction::kOuter, c.src_rank, c.dst_rank,
                             static_cast<double>(syncs.size()));
    if (!link) continue;
    out.outer_predicted_s = std::max(out.outer_predicted_s.value_or(0), MessageSeconds(*link));
  }
}

// What was injected is known; what a worker says it took holds waiting for a core.
void TakeInjected(const RunSpec& spec, std::vector<StageCost>& costs) {
  if (!spec.injected()) return;
  for (size_t s = 0; s < costs.size(); ++s) {
    costs[s].forward_s = spec.compute->forward_s[s];
    costs[s].backward_s = spec.compute->backward_s[s];
    costs[s].optimizer_s = spec.compute->optimizer_s;
  }
}

bool MeetsEveryStep(const RunSpec& spec) {
  const OuterPlan plan = OuterPlanOf(spec);
  return spec.outer.groups > 1 && plan.meets() && plan.round_steps() == 1;
}

// A share of the training, by its fact; nullopt: the record does not say.
std::optional<double> Share(const RunRow& run, const char* fact) {
  const std::string share = FactOf(run.facts, fact);
  return share.empty() ? std::nullopt : std::optional(std::atof(share.c_str()));
}

// What in the record says that the run's times are others than those of its machine left alone.
std::string Disturbance(const RunRow& run, const RunSpec& spec) {
  const std::string cores = FactOf(run.facts, "cores");
  const int64_t workers = spec.workers();
  if (!spec.injected() && !cores.empty()) {  // injected: workers sleep
    const int64_t have = std::atoll(cores.c_str());
    if (workers * run.threads > have) {
      return fmt::format("{} workers share {} cores", workers, have);
    }
  }
  const auto above = [&](const char* fact, double most, const char* what) {
    const double share = Share(run, fact).value_or(0);
    return share <= most ? std::string()
                         : fmt::format("{} for {:.3g} % of the training, bound {:g} %", what,
                                       100 * share, 100 * most);
  };
  for (const std::string& found :
       {above(kStillShareFact, kMostStill, "a worker did not run"),
        above(kCoreWaitShareFact, kMostCoreWait, "a worker's threads waited for a core"),
        above(kStolenShareFact, kMostStolen, "the host took this machine's cores")}) {
    if (!found.empty()) return found;
  }
  const std::string punctual = FactOf(run.facts, kEmulatorPunctualFact);
  if (punctual.empty() || punctual == "yes") return "";
  return "more than 1 % of the frames left the emulator over 1 ms late";
}

std::string Note(const RunRow& run, const RunSpec& spec) {
  if (spec.net.transport == "loopback") return "";
  const std::string disturbance = Disturbance(run, spec);
  if (!disturbance.empty()) return "timing disturbed: " + disturbance;
  if (run.status != RunStatus::kOk) {
    return fmt::format("the run is {}", std::string(ToString(run.status)));
  }
  if (!Share(run, kStillShareFact))
    return "the record does not say whether its workers stood still";
  return "";
}

// P1, P2, P3 and the parts of P2, each the mean of the groups. False, and nothing of them: there is
// no pipeline over links, or the note of `out` says why not.
bool Predict(const RunSpec& spec, const PipelineProgram& program,
             const std::vector<StageCost>& costs, const std::vector<LinkRow>& links,
             const std::vector<CrossingRow>& crossings, StepTime& out) {
  if (spec.model.expert_parallel > 1) {
    out.note =
        "no prediction: rows of spread experts cross in the midst of every pass, as routers choose";
    return false;
  }
  const double share = 1 / static_cast<double>(out.groups);
  const double meeting_s = out.meets_every_step ? out.outer_predicted_s.value_or(0) : 0;
  double p1_s = 0, p2_s = 0, p3_s = 0, alone_s = 0, coded_s = 0;
  for (int64_t group = 0; group < out.groups; ++group) {
    const auto pipeline = MeasuredPipeline(spec, program, group, costs, links, crossings);
    if (!pipeline) return false;
    const auto alone = WithoutLinks(*pipeline, Coding::kFree);
    const auto coded = WithoutLinks(*pipeline, Coding::kPaid);
    for (const auto& [predicted, sum] : {std::pair(PredictStepSeconds(*pipeline), &p2_s),
                                         {OneWireSeconds(*pipeline), &p3_s},
                                         {PredictStepSeconds(alone), &alone_s},
                                         {PredictStepSeconds(coded), &coded_s}}) {
      if (!predicted.ok()) {
        // The record of another version keeps its measured times; the reason is shown beside them.
        out.note = "no prediction: " + std::string(predicted.status().message());
        return false;
      }
      *sum += share * *predicted;
    }
    p1_s += share * SerialSlotSeconds(*pipeline);
  }
  out.p1_s = p1_s + meeting_s;
  out.p2_s = p2_s + meeting_s;
  out.p3_s = p3_s + meeting_s;
  out.alone_s = alone_s;
  out.coded_s = coded_s;
  out.compute_s = MeanCompute(costs, spec.ranks(), out.microbatches);
  return true;
}

}  // namespace

absl::StatusOr<StepTime> AnalyseStepTime(const Record& record, const RunRow& run,
                                         const RunSpec& spec) {
  const auto steps = record.Steps(run.id);
  const auto links = record.Links(run.id);
  const auto crossings = record.Crossings(run.id);
  for (const absl::Status& s : {steps.status(), links.status(), crossings.status()}) {
    if (!s.ok()) return s;
  }
  StepTime out;
  out.run = run.id;
  out.arm = run.arm;
  out.profile = run.profile;
  out.schedule = spec.schedule.kind;
  out.stages = spec.schedule.stages;
  out.groups = spec.outer.groups;
  out.microbatches = spec.train.microbatches;
  out.note = Note(run, spec);
  if (spec.net.transport != "loopback")
    AddOuter(spec.schedule.chunks, *steps, *links, *crossings, out);
  auto steady = SteadySteps(*steps, /*outer_synced=*/false);
  if (steady.empty() && MeetsEveryStep(spec)) {
    steady = SteadySteps(*steps, /*outer_synced=*/true);
    out.meets_every_step = true;
  }
  if (steady.empty()) return out;  // measured_steps = 0: too few steps
  const auto chunks = static_cast<double>(spec.schedule.chunks);  // rows of a worker
  std::vector<double> walls, utilisation;
  for (const auto& workers : steady) {
    walls.push_back(MeanOf(workers, [](const StepRow& r) { return r.wall_s; }));
    utilisation.push_back(
        chunks *
        MeanOf(workers,
               [](const StepRow& r) { return r.forward_s + r.backward_s + r.optimizer_s; }) /
        walls.back());
  }
  out.measured_s = MedianOfSteps(walls);
  out.measured_steps = static_cast<int64_t>(steady.size());
  out.compute_utilisation = MedianOfSteps(utilisation);
  if (spec.net.transport == "loopback") return out;
  const absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  if (!program.ok()) {
    // The record of another version keeps its measured times; the reason is shown beside them.
    out.note = "no prediction: " + std::string(program.status().message());
    return out;
  }
  std::vector<StageCost> costs = MeasuredCosts(steady, *program);
  TakeInjected(spec, costs);
  if (!Predict(spec, *program, costs, *links, *crossings, out)) return out;
  std::vector<double> residuals;
  for (const double wall : walls) residuals.push_back(std::log(wall / *out.p2_s));
  out.residual = MedianOfSteps(residuals);
  return out;
}

}  // namespace longhaul
