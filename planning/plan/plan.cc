#include "planning/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_split.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"
#include "netem/topology/text_file.h"
#include "planning/plan/link_matrix.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul::plan {
namespace {

constexpr int kMostNodes = 64;
// Steps that are timed, and as many before them that fill the pipeline and open windows: whole rounds,
// sixteen steps at least; of pairs that are drawn, eight rounds.
constexpr int64_t kLeastSteps = 16;
constexpr int64_t kRoundsOfPairs = 8;
constexpr int64_t kMostSteps = 20'000;

int64_t TimedSteps(const RunSpec& spec) {
  int64_t round = std::max<int64_t>(1, spec.outer.inner_steps);
  if (spec.outer.global_every) round *= *spec.outer.global_every;
  if (!AllMeet(spec.outer.algorithm)) round *= kRoundsOfPairs;
  return (kLeastSteps + round - 1) / round * round;
}

double LatestSecond(const SimulatedClock& clock, const RunSpec& spec) {
  double latest = 0;
  for (int g = 0; g < spec.outer.groups; ++g) {
    for (int s = 0; s < spec.stages(); ++s) latest = std::max(latest, clock.Seconds(g, s));
  }
  return latest;
}

// Of a step on average over the second of two equal windows.
absl::StatusOr<double> StepSeconds(SimulatedClock& clock, const RunSpec& spec) {
  const int64_t timed = TimedSteps(spec);
  double filled = 0;
  for (int64_t step = 1; step <= 2 * timed; ++step) {
    if (absl::Status s = clock.Step(); !s.ok()) return s;
    if (step == timed) filled = LatestSecond(clock, spec);
  }
  return (LatestSecond(clock, spec) - filled) / static_cast<double>(timed);
}

// Links with equal figures have equal numbers.
std::vector<int> LinkKinds(const Topology& links, const RunSpec& spec) {
  const size_t n = links.nodes.size();
  std::map<std::tuple<double, double, double, bool>, int> kinds;
  std::vector<int> out(n * n, -1);
  for (const PathSpec& path : links.paths) {
    const BoundaryLink link = LinkOf(links, path, spec);
    const int next = static_cast<int>(kinds.size());
    out[static_cast<size_t>(path.from) * n + static_cast<size_t>(path.to)] =
        kinds
            .try_emplace(
                {link.rate_bit_per_s, link.one_way_delay_s, link.queue_packets, link.whole_buffers},
                next)
            .first->second;
  }
  return out;
}

// All links as fast and as near as the best of them.
Topology BestLinks(Topology links) {
  absl::Duration delay = absl::InfiniteDuration();
  std::optional<BitsPerSecond> rate = BitsPerSecond{0};
  for (const PathSpec& path : links.paths) {
    delay = std::min(delay, path.delay);
    rate = !path.rate || !rate ? std::nullopt : std::optional(std::max(*rate, *path.rate));
  }
  for (PathSpec& path : links.paths) {
    path.delay = delay;
    path.rate = rate;
  }
  return links;
}

absl::Status Place(const Topology& links, PlanRow& row) {
  RunSpec spec = row.choice.spec;
  const int64_t steps = 2 * TimedSteps(spec);
  if (steps > kMostSteps) {
    return absl::InvalidArgumentError(
        fmt::format("rounds of {} steps: want at most {} steps to look at", spec.outer.inner_steps,
                    kMostSteps / 2));
  }
  spec.train.tokens.reset();
  spec.train.steps = steps + 1;  // the last step of a run exchanges all that is left
  // Places are compared by their links, not by what was lost on them in one run.
  const auto clock = SimulatedClock::Of(spec, links, SimulatedClock::Losses::kNone);
  if (!clock.ok()) return clock.status();
  const auto alike = SimulatedClock::Of(spec, BestLinks(links), SimulatedClock::Losses::kNone);
  if (!alike.ok()) return alike.status();
  row.least_step_s = (*alike)->LeastStepSeconds();
  PlacementProblem problem{.nodes = static_cast<int>(spec.workers()),
                           .ranks_of_group = static_cast<int>(spec.ranks()),
                           .groups_alike = AllMeet(spec.outer.algorithm),
                           .link_kind = LinkKinds(links, spec),
                           .seconds =
                               [&](const std::vector<int>& nodes) {
                                 return StepSeconds(*(*clock)->Placed(nodes), spec);
                               },
                           .least_seconds =
                               [&](const std::vector<int>& nodes) {
                                 return (*clock)->Placed(nodes)->LeastStepSeconds();
                               }};
  absl::StatusOr<Placement> placement = BestPlacement(problem);
  if (placement.ok()) row.placement = *std::move(placement);
  return placement.status();
}

// Bytes of a micro-batch there and back over a boundary; nullopt: no such codecs.
std::optional<BothWays> PairBytes(const RunSpec& spec, const std::string& pair) {
  const std::vector<std::string> both = absl::StrSplit(pair, " / ");
  const Shape shape = BoundaryShape(spec);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  const auto there = MessageBytes(both.front(), shape, dtype);
  const auto back = MessageBytes(both.back(), shape, dtype);
  if (!there || !back) return std::nullopt;
  return BothWays{*there, *back};
}

double Parameters(const RunSpec& spec) {
  double sum = 0;
  for (int64_t s = 0; s < spec.stages(); ++s) {
    for (const ParameterSlot& slot : LayoutOf(spec, s).slots) {
      sum += static_cast<double>(slot.elements());
    }
  }
  return sum;
}

// eta of the groups' meetings; why it is not known.
std::string AddOuter(const Quality& quality, const Candidate& c, std::vector<EtaFactor>& factors) {
  if (c.outer_codec.empty()) return "";
  const RunSpec::Outer& outer = c.spec.outer;
  const bool gradients = ExchangesGradients(outer.algorithm);
  // Synchronous data parallel over the same global batch is what the campaigns compare with.
  if (outer.algorithm == "dp" && c.outer_codec == "none") return "";
  const bool diloco = outer.algorithm == "diloco";
  const auto rounds = diloco ? quality.Rounds(outer.groups, outer.inner_steps) : std::nullopt;
  const auto codec = diloco ? quality.OuterCodec(c.outer_codec) : std::nullopt;
  if (rounds && codec) {
    factors.push_back(*rounds);
    factors.push_back(*codec);
    return "";
  }
  if (const auto whole = quality.Outer(outer.algorithm, c.outer_codec, outer.groups,
                                       gradients ? 1 : outer.inner_steps)) {
    factors.push_back(*whole);
    return "";
  }
  if (!diloco) {
    return fmt::format("no calibration measures '{}' with {}", outer.algorithm, c.outer_codec);
  }
  return rounds ? fmt::format("no calibration measures outer codec '{}'", c.outer_codec)
                : fmt::format("no calibration has a cell of {} group(s)", outer.groups);
}

void Judge(const Quality& quality, const LnFactor& tokens, PlanRow& row) {
  const RunSpec& spec = row.choice.spec;
  const double a_step = static_cast<double>(TokensPerStep(spec));
  const double ln_s_a_token = std::log(row.placement.seconds / a_step);
  row.reference_s = std::exp(tokens.value + ln_s_a_token);
  const auto act =
      quality.Activations(row.choice.codec, spec.stages(),
                          [&spec](const std::string& pair) { return PairBytes(spec, pair); });
  if (!act) {
    row.unknown =
        fmt::format("no calibration measures '{}', or one of fewer bytes", row.choice.codec);
    return;
  }
  row.factors.push_back(*act);
  row.unknown = AddOuter(quality, row.choice, row.factors);
  std::erase_if(row.factors, [](const EtaFactor& f) {
    return f.ln.value == 0 && f.ln.low == 0 && f.ln.high == 0;
  });
  for (const EtaFactor& f : row.factors) {
    row.beyond.insert(row.beyond.end(), f.beyond.begin(), f.beyond.end());
  }
  if (const auto size = quality.Size(Parameters(spec), row.factors)) row.beyond.push_back(*size);
  if (!row.unknown.empty()) return;
  double ln_eta = 0, earlier = std::pow(tokens.value - tokens.low, 2),
         later = std::pow(tokens.high - tokens.value, 2);
  for (const EtaFactor& f : row.factors) {
    ln_eta += f.ln.value;
    earlier += std::pow(f.ln.high - f.ln.value, 2);
    later += std::pow(f.ln.value - f.ln.low, 2);
  }
  row.ln_time.value = tokens.value + ln_s_a_token - ln_eta;
  row.ln_time.low = row.ln_time.value - std::sqrt(earlier);
  row.ln_time.high = row.ln_time.value + std::sqrt(later);
}

// What a factor adds to the half-widths of ln(T2 / T1).
struct Term {
  std::string name;
  int row;
  double down, up;
};

Verdict Compare(const PlanRow& first, const PlanRow& second) {
  std::vector<Term> terms;
  const auto own = [](const PlanRow& row, const PlanRow& other, auto add) {
    for (const EtaFactor& f : row.factors) {
      const bool shared = std::any_of(other.factors.begin(), other.factors.end(),
                                      [&](const EtaFactor& o) { return o.name == f.name; });
      if (!shared) add(f);
    }
  };
  own(first, second, [&](const EtaFactor& f) {
    terms.push_back({f.name, 0, f.ln.value - f.ln.low, f.ln.high - f.ln.value});
  });
  own(second, first, [&](const EtaFactor& f) {
    terms.push_back({f.name, 1, f.ln.high - f.ln.value, f.ln.value - f.ln.low});
  });
  terms.push_back({kClockName, 0, kClockError, kClockError});
  Verdict out;
  double down = 0, up = 0;
  for (const Term& t : terms) {
    down += t.down * t.down;
    up += t.up * t.up;
  }
  out.ln_ratio.value = second.ln_time.value - first.ln_time.value;
  out.ln_ratio.low = out.ln_ratio.value - std::sqrt(down);
  out.ln_ratio.high = out.ln_ratio.value + std::sqrt(up);
  out.first_wins = out.ln_ratio.low > 0;
  for (const Term& t : terms) out.shares.push_back({t.name, t.down * t.down / down, t.row});
  std::stable_sort(out.shares.begin(), out.shares.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

absl::StatusOr<Quality> ReadQuality(const PlanSpec& spec) {
  std::vector<simulator::Calibration> calibrations;
  std::map<std::string, std::string> files;  // by their text
  for (const std::string& file : spec.calibrations) {
    const auto text = ReadTextFile(file);
    if (!text.ok()) return text.status();
    if (const auto [same, fresh] = files.try_emplace(*text, file); !fresh) {
      return absl::InvalidArgumentError(fmt::format(
          "plan.calibration: {} and {} hold the same data; name each once", same->second, file));
    }
    auto calibration = simulator::ReadCalibration(file);
    if (!calibration.ok()) return calibration.status();
    calibrations.push_back(*std::move(calibration));
  }
  return Quality(std::move(calibrations));
}

void Sort(std::vector<PlanRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const PlanRow& a, const PlanRow& b) {
    const auto key = [](const PlanRow& r) {  // equal times differ in their last bits
      const double s = r.unknown.empty() ? std::exp(r.ln_time.value) : r.reference_s;
      return std::tuple(!r.within, !r.unknown.empty(), std::llround(s * 1e3), r.worker_bytes);
    };
    return key(a) < key(b);
  });
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanSpec& spec, const SpecNames& names,
                              const WorkerBytes& worker_bytes) {
  Plan plan{.spec = spec,
            .links = {},
            .ln_reference_tokens = {},
            .rows = {},
            .left_out = {},
            .verdict = {}};
  const absl::StatusOr<Quality> quality = ReadQuality(spec);
  if (!quality.ok()) return quality.status();
  const absl::StatusOr<LossFile> losses = ReadLossFile(spec.curve);
  if (!losses.ok()) return losses.status();
  const absl::StatusOr<LnFactor> tokens = LnTokensToLoss(*losses, spec.target_loss_nat);
  if (!tokens.ok()) return tokens.status();
  plan.ln_reference_tokens = *tokens;
  if (spec.run.workers() > kMostNodes) {
    return absl::InvalidArgumentError(
        fmt::format("{} workers: a plan places at most {}", spec.run.workers(), kMostNodes));
  }
  absl::StatusOr<Topology> links =
      ReadLinkMatrix(spec.links, static_cast<int>(spec.run.workers()), &plan.link_notes);
  if (!links.ok()) return links.status();
  plan.links = *std::move(links);
  const auto candidates = CandidatesOf(spec, names, &plan.left_out);
  if (!candidates.ok()) return candidates.status();
  for (const Candidate& candidate : *candidates) {
    PlanRow row{.choice = candidate};
    row.worker_bytes = worker_bytes(candidate.spec);
    row.within = !spec.memory_bytes || row.worker_bytes <= *spec.memory_bytes;
    plan.rows.push_back(std::move(row));
  }
  if (std::none_of(plan.rows.begin(), plan.rows.end(), [](const PlanRow& r) { return r.within; })) {
    const auto least = std::min_element(
        plan.rows.begin(), plan.rows.end(),
        [](const PlanRow& a, const PlanRow& b) { return a.worker_bytes < b.worker_bytes; });
    return absl::ResourceExhaustedError(fmt::format(
        "no choice stays within {:.4g} MB a worker: the smallest, {} with {}, takes {:.4g} MB",
        1e-6 * static_cast<double>(*spec.memory_bytes), least->choice.spec.schedule.kind,
        least->choice.codec, 1e-6 * static_cast<double>(least->worker_bytes)));
  }
  for (PlanRow& row : plan.rows) {
    if (absl::Status s = Place(plan.links, row); !s.ok()) return s;
    Judge(*quality, plan.ln_reference_tokens, row);
  }
  Sort(plan.rows);
  const auto ranked = [&plan](size_t i) {
    return i < plan.rows.size() && plan.rows[i].within && plan.rows[i].unknown.empty();
  };
  if (ranked(0) && ranked(1)) plan.verdict = Compare(plan.rows[0], plan.rows[1]);
  return plan;
}

Topology PlacedLinks(const Plan& plan, const PlanRow& row) {
  Topology out = plan.links;
  std::vector<int> rank_of(row.placement.nodes.size());
  for (size_t r = 0; r < row.placement.nodes.size(); ++r) {
    out.nodes[r] = plan.links.nodes[static_cast<size_t>(row.placement.nodes[r])];
    rank_of[static_cast<size_t>(row.placement.nodes[r])] = static_cast<int>(r);
  }
  for (PathSpec& path : out.paths) {
    path.from = rank_of[static_cast<size_t>(path.from)];
    path.to = rank_of[static_cast<size_t>(path.to)];
  }
  return out;
}

RunSpec TimedRun(const PlanRow& row, const std::string& links) {
  RunSpec spec = row.choice.spec;
  RunSpec::Compute slept;
  slept.optimizer_s = spec.compute->optimizer_s;
  for (const PipelineCosts::Stage& stage : StageSeconds(spec)) {
    slept.forward_s.push_back(stage.forward_s);
    slept.backward_s.push_back(stage.backward_s);
  }
  spec.compute = slept;
  spec.net.clock = "";
  spec.net.transport = "ucx";
  spec.net.profile = links;
  spec.train.tokens.reset();
  spec.train.steps = 3 * TimedSteps(spec);
  spec.train.warmup_steps = 1;
  return spec;
}

}  // namespace longhaul::plan
