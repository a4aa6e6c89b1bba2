#include "tests/experiments/record/synthetic_record.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/estimates/step_time.h"
#include "experiments/spec/spec_changes.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

const std::string kCampaignToml = R"([campaign]
name = "smoke"
question = "What does a crossing cost with int4-b64-h64 forward and int8-b64 backward?"
seeds = [SEEDS]
d0_tokens = 400_000
budgets = [0.5, 0.65, 0.8, 1.0, 1.1]
control_budgets = [CONTROLS]
[[arm]]
name = "s2"
stages = 2
forward = "int4-b64-h64"
backward = "int8-b64"
[[arm]]
name = "s4"
stages = 4
forward = "int4-b64-h64"
backward = "int8-b64"
[[arm]]
name = "s8"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
MORE_ARMS
)" + std::string(kArmsToml) + "rows = 2048\n";

RunRow Row(const RunSpec& spec, int64_t experiment, const std::string& arm) {
  RunRow row;
  row.experiment_id = experiment;
  row.arm = arm;
  row.seed = spec.seed;
  row.train_tokens = TrainTokens(spec);
  row.stages = spec.schedule.stages;
  row.groups = spec.outer.groups;
  row.forward_codec = CodecText(spec).forward;
  row.backward_codec = CodecText(spec).backward;
  row.profile = spec.net.transport == "loopback" ? "loopback" : spec.net.profile;
  row.spec_toml = ToToml(spec);
  row.git_revision = "0123456789ab";
  row.host = "box";
  row.kernel = "Linux 6.1.0";
  row.torch_version = "2.13.0+cpu";
  row.cpu = "a CPU";
  row.isa = "avx2";
  row.facts = {{"parameters", "436352"}, {"cores", "8"}, {"still_share", "0"}};
  return row;
}

double BitsOf(const std::string& codec) {
  return codec == "none" || codec == "identity" ? 32 : codec == "int8-b64" ? 8.25 : 4.25;
}

CrossingRow Crossing(const RunSpec& spec, int64_t src, int64_t dst, Direction direction,
                     bool kernel) {
  CrossingRow c{};
  c.src_rank = src;
  c.dst_rank = dst;
  c.direction = direction;
  const RunSpec::Boundary::Cut codecs = CodecsOf(spec, std::min(src, dst) % spec.schedule.stages);
  c.codec = direction == Direction::kForward ? codecs.forward : codecs.backward;
  c.tensors = Steps(spec) * spec.train.microbatches;
  const int64_t elements =
      spec.train.batch_rows / spec.train.microbatches * spec.model.context * spec.model.width;
  c.elements = c.tensors * elements;
  c.payload_bytes =
      c.tensors * static_cast<int64_t>(static_cast<double>(elements) * BitsOf(c.codec) / 8 + 64);
  c.message_bytes = c.payload_bytes + c.tensors * 112;
  c.predicted_wire_bytes =
      std::llround(static_cast<double>(c.message_bytes) * kWireFactor) + c.tensors * 60;
  if (kernel) c.kernel_tx_bytes = *c.predicted_wire_bytes * 1002 / 1000;
  if (c.codec != "none") {
    c.nmse_samples = c.tensors / 16;
    c.nmse_mean = direction == Direction::kForward ? 7.1e-3 : 4.4e-5;
    c.nmse_max = *c.nmse_mean * 1.6;
  }
  c.encode_s = 1e-4 * static_cast<double>(c.tensors);
  c.payload_hash = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(src + 3 * dst + 1);
  return c;
}

void Must(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

void AddLinks(Record& record, int64_t run, const RunSpec& spec) {
  std::vector<LinkRow> links;
  const int64_t ranks = spec.schedule.stages * spec.outer.groups;
  for (const LinkPhase phase : {LinkPhase::kBefore, LinkPhase::kAfter}) {
    for (int64_t i = 0; i < ranks; ++i) {
      for (int64_t j = 0; j < ranks; ++j) {
        if (i == j) continue;
        LinkRow l{};
        l.phase = phase;
        l.src_node = i;
        l.dst_node = j;
        l.nominal_rate_bit_per_s = 100e6;
        l.nominal_rtt_s = 0.065;
        l.rtt_min_s = 0.06503;
        l.rtt_median_s = 0.06511;
        l.rtt_p99_s = 0.0653;
        l.nominal_goodput_bit_per_s = 95.64e6;
        l.goodput_bit_per_s = 95.2e6;
        l.probes_sent = l.probes_received = 20;
        links.push_back(l);
      }
    }
  }
  Must(record.AddLinks(run, links));
}

// Nothing it does can change a bit of a run with this budget.
bool Lossless(const PlannedRun& run) {
  const auto kept = [](const std::string& codec) { return codec == "none" || codec == "identity"; };
  return run.budget_fraction == 1 && kept(run.spec.boundary.forward) &&
         kept(run.spec.boundary.backward);
}

void AddSteps(Record& record, int64_t run, const RunRow& row) {
  std::vector<StepRow> steps;
  for (int64_t step = 1; step <= 3; ++step) {
    for (int64_t stage = 0; stage < row.stages; ++stage) {
      StepRow s{};
      s.step = step;
      s.stage = stage;
      if (stage + 1 == row.stages) s.loss_nat = 5.5 - 0.1 * static_cast<double>(step + row.seed);
      s.parameter_hash = static_cast<uint64_t>(1000 * step + row.seed);
      s.outer_synced = row.groups > 1 && step > 1;  // half a byte an element, to every peer
      if (s.outer_synced) s.outer_sent_bytes = (row.groups - 1) * 436352 / 2 / row.stages;
      steps.push_back(s);
    }
  }
  Must(record.AddSteps(run, steps));
}

void AddShapedRun(Record& record, int64_t experiment, const RunSpec& spec, const std::string& arm,
                  double disturbance) {
  RunRow row = Row(spec, experiment, arm);
  row.emulator = spec.net.transport == "ucx" ? "tap" : "none";
  const int64_t run = *record.BeginRun(row);
  const bool shaped = spec.net.transport == "ucx";
  if (shaped) AddLinks(record, run, spec);
  std::vector<CrossingRow> crossings;
  for (int64_t g = 0; g < spec.outer.groups; ++g) {
    crossings.push_back(Crossing(spec, 2 * g, 2 * g + 1, Direction::kForward, shaped));
    crossings.push_back(Crossing(spec, 2 * g + 1, 2 * g, Direction::kBackward, shaped));
  }
  for (const auto& [src, dst] :
       {std::pair(0, 2), std::pair(2, 0), std::pair(1, 3), std::pair(3, 1)}) {
    CrossingRow c = Crossing(spec, src, dst, Direction::kOuter, shaped);
    c.codec = spec.outer.codec;
    c.tensors = 2;
    c.payload_bytes = c.message_bytes = 250'000;
    c.predicted_wire_bytes = 261'500;
    if (shaped) c.kernel_tx_bytes = 261'900;
    crossings.push_back(c);
  }
  Must(record.AddCrossings(run, crossings));
  const StageCost cost{.forward_s = 0.008, .backward_s = 0.016, .optimizer_s = 0.003};
  const auto link = [&](const CrossingRow& c) {
    return BoundaryLink{static_cast<double>(c.message_bytes) / static_cast<double>(c.tensors),
                        100e6, 0.0325};
  };
  const Pipeline pipeline{"1f1b", 4, {cost, cost}, {link(crossings[0])}, {link(crossings[1])}};
  const double wall = shaped ? *PredictStepSeconds(pipeline) * disturbance : 0.2;
  std::mt19937_64 random(3);
  std::normal_distribution<double> jitter(0, 0.01);
  std::vector<StepRow> steps;
  for (int64_t step = 1; step <= Steps(spec); ++step) {
    const double this_wall = wall * std::exp(jitter(random));
    for (int64_t rank = 0; rank < 4; ++rank) {
      StepRow s{};
      s.step = step;
      s.group_index = rank / 2;
      s.stage = rank % 2;
      if (s.stage == 1) s.loss_nat = 5.5 - 0.05 * static_cast<double>(step);
      s.tokens = 2048;
      s.forward_s = 4 * cost.forward_s;
      s.backward_s = 4 * cost.backward_s;
      s.optimizer_s = cost.optimizer_s;
      s.wait_s = std::max(0.0, this_wall - 0.099);
      s.outer_synced = step % spec.outer.inner_steps == 0;
      s.outer_s = s.outer_synced ? 0.055 : 0;
      s.wall_s = this_wall + s.outer_s;
      s.outer_sent_bytes = s.outer_synced ? 125'000 : 0;
      s.parameter_hash = static_cast<uint64_t>(step * 17 + s.stage);
      steps.push_back(s);
    }
  }
  Must(record.AddSteps(run, steps));
  for (const EvalCodec codec : {EvalCodec::kOff, EvalCodec::kOn}) {
    Must(record.AddEvaluation(run, {Steps(spec), codec, 4.3, 0.01, 8192}));
  }
  Must(record.FinishRun(run, RunStatus::kOk, ""));
}

}  // namespace

int64_t WriteSyntheticCampaign(Record& record, const SyntheticWorld& w, const std::string& name) {
  std::string text = kCampaignToml, seeds;
  for (int seed = 1; seed <= w.seeds; ++seed) seeds += fmt::format("{},", seed);
  text.replace(text.find("SEEDS"), 5, seeds);
  text.replace(text.find("CONTROLS"), 8, w.control_budgets);
  text.replace(text.find("MORE_ARMS"), 9, w.more_arms);
  text.replace(text.find("smoke"), 5, name);
  const CampaignSpec campaign = *ReadCampaign(*ParseToml(text, "smoke.toml"), TestNames());
  const int64_t experiment =
      *record.BeginExperiment({.kind = ExperimentKind::kCampaign,
                               .name = campaign.name,
                               .question = campaign.question,
                               .plan_text = PlanText(campaign, {{"eval_hash", "ab"}}),
                               .d0_tokens = campaign.d0_tokens});
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::map<int64_t, double> seed_effect;
  for (const int64_t seed : campaign.seeds) seed_effect[seed] = w.seed_effect_nat * normal(random);
  std::map<int64_t, double> d0_loss;
  // Tokens are trained in whole steps; the law is exact in what was trained.
  double d0 = 0;
  for (const PlannedRun& p : campaign.runs) {
    if (p.arm == "reference@1") d0 = static_cast<double>(TrainTokens(p.spec));
  }
  for (const PlannedRun& planned : campaign.runs) {
    RunRow row = Row(planned.spec, experiment, planned.arm);
    row.role = planned.role;
    row.budget_fraction = planned.budget_fraction;
    const int64_t run = *record.BeginRun(row);
    const double crossings =
        static_cast<double>(CompressedCrossings(row.stages, row.forward_codec, row.backward_codec));
    const double budget = static_cast<double>(row.train_tokens) / d0 * std::pow(w.q, crossings);
    const auto extra = w.extra_nat.find(planned.arm);
    double loss = 2.7 - w.slope_nat * std::log(budget) + seed_effect[row.seed] +
                  w.noise_nat * normal(random) + (extra == w.extra_nat.end() ? 0 : extra->second);
    if (planned.arm == kD0Reference) d0_loss[row.seed] = loss;
    if (planned.role != Role::kReference && extra == w.extra_nat.end() && Lossless(planned)) {
      loss = d0_loss[row.seed];
    }
    const int64_t steps = Steps(planned.spec);
    if (w.with_steps) AddSteps(record, run, row);
    const double on =
        row.stages > 1 && !Lossless(planned) ? w.codec_on_extra_nat * crossings / 14 : 0;
    Must(record.AddEvaluation(run, {steps, EvalCodec::kOff, loss, 0.004, 262144}));
    Must(record.AddEvaluation(run, {steps, EvalCodec::kOn, loss + on, 0.004, 262144}));
    std::vector<CrossingRow> crossing_rows;
    for (int64_t b = 0; crossings > 0 && b + 1 < row.stages; ++b) {
      crossing_rows.push_back(Crossing(planned.spec, b, b + 1, Direction::kForward, false));
      crossing_rows.push_back(Crossing(planned.spec, b + 1, b, Direction::kBackward, false));
    }
    Must(record.AddCrossings(run, crossing_rows));
    Must(record.FinishRun(run, RunStatus::kOk, ""));
  }
  return experiment;
}

int64_t WriteSyntheticShapedRuns(Record& record, double disturbance) {
  const int64_t experiment =
      *record.BeginExperiment({.kind = ExperimentKind::kRun, .name = "shaped"});
  const auto spec = [](std::vector<std::string> sets) {
    TomlValue root = *ParseToml(kRunToml, "shaped.toml");
    Erase(root, "train.tokens");
    for (const char* common :
         {"train.steps=48", "outer.groups=2", "outer.inner_steps=12", "outer.codec=int8-b64"}) {
      sets.emplace_back(common);
    }
    for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
    return *ReadRunSpec(root, TestNames());
  };
  AddShapedRun(record, experiment, spec({"boundary.forward=none", "boundary.backward=none"}),
               "none", disturbance);
  AddShapedRun(record, experiment, spec({}), "default-pair", disturbance);
  AddShapedRun(record, experiment, spec({"net.transport=loopback"}), "one-process", disturbance);
  return experiment;
}

}  // namespace longhaul
