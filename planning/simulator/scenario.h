#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace longhaul::simulator {

// Factors of one calibration at one point of their intervals, in place of the assumed ones.
// Everything empty leaves every formula as it is, bit for bit.
struct Factors {
  struct AtDepth {
    int64_t stages;
    double ln_eta;
  };
  // eta_act, at most 1: at a listed S as it stands, between two (and S = 1, which has 0) on a line of
  // ln eta over S, deeper than all q^(2(S-1)) or exp(-a (S-1)^gamma) with the a that gives q at S = 2.
  std::optional<double> q;
  std::optional<double> gamma;
  std::vector<AtDepth> by_stages;
  // What activations forward and their gradients backward shrink to; T_step uses them.
  std::optional<double> forward_ratio, backward_ratio;

  std::optional<double> alpha_scale;  // multiplies alpha(P)
  std::optional<double> eta_h;        // at the scenario's own P, M and H
  std::optional<double> eta_c;
  std::optional<double> eta_r;
  std::optional<double> replica_coefficient, replica_floor;  // of the linear forms of eta_r
  std::optional<double> straggler_coefficient;
  std::optional<double> step_time_ratio;  // multiplies T_step
};

// Every variant of a formula is a switch with a name; switches.h has the names.
enum class ProfileName { kGovernance, kGovernancePp, kDocumentation, kLatest };
enum class Precision { kFp16, kFp8, kFp4 };
enum class Case { kOptimistic, kExpected, kConservative };
enum class Topology { kFlat, kHierarchical };
enum class ExpertParallel { kNone, kGlobal, kRegional };
enum class GradientTable { kGovernance, kDocumentation, kWithoutErrorFeedback, kErrorFeedback };
enum class ActivationTable { kNote, kFirstPipeline, kLatest, kDocumentation };
enum class Replica { kLinear, kLinearNoFloor, kLoss, kLossWithoutH, kLossInChi };
enum class Straggler { kSync, kThreshold, kBackup, kRelay };
enum class PipelineLinks { kRegional, kWan };
enum class MicroCompute { kPerStage, kWholeModel };

inline constexpr double kYearSeconds = 365.25 * 24 * 3600;

struct Switches {
  GradientTable gradient_table = GradientTable::kGovernance;
  ActivationTable activation_table = ActivationTable::kNote;
  Replica replica = Replica::kLinear;
  Straggler straggler = Straggler::kSync;
  bool chi = false;                  // count C_quality = C_local chi
  double tokens_per_parameter = 20;  // reference allocation r
  double overtrain_target = 1;       // multiplies r
  PipelineLinks pipeline_links = PipelineLinks::kRegional;
  MicroCompute micro_compute = MicroCompute::kPerStage;
  bool boundary_overlap = false;     // a slot is the longer of compute and link, not their sum
  bool stage_parallel_sync = false;  // each stage sends its own V_b/S
  bool streaming = true;             // the outer exchange overlaps the inner steps

  bool operator==(const Switches&) const = default;
};

// One network of nodes and one model. Plain values, cheap to copy. Rates bit/s, times s, memory B.
struct Scenario {
  ProfileName profile = ProfileName::kGovernance;
  Switches switches;
  Case expected = Case::kExpected;  // column of the compression tables

  // The node.
  int64_t devices = 48;
  double device_fp16_flops = 312e12;  // counts H100 equivalents
  double peak_flops = 48 * 312e12;    // F, at the compute precision
  double memory_bytes = 48 * 80e9;    // V
  double device_price = 15000;        // USD
  Precision precision = Precision::kFp16;
  double mfu = 0.40;

  // The model. 0 parameters: the largest that fits, V/beta. 0 active: dense.
  double parameters = 0;
  double active_parameters = 0;
  int64_t moe_layers = 32;
  ExpertParallel expert_parallel = ExpertParallel::kNone;

  // The network.
  int64_t nodes = 1;
  int64_t group_nodes = 8;  // g
  Topology topology = Topology::kFlat;
  double wan_up = 100e6;
  double wan_down = 100e6;
  double wan_rtt = 0.100;
  double regional_rate = 1e9;
  double regional_rtt = 0.020;

  // The training.
  double step_tokens = 131072;             // B, of a node or pipeline group and inner step
  double gradient_ratio = 16;              // C_r
  double activation_ratio = 4;             // C_a
  std::optional<double> backward_ratio;    // of the gradients of activations; none: C_a too
  int64_t micro_batches = 8;               // M
  std::optional<int64_t> inner_steps;      // H; none: the least at which the exchange hides
  double wall_clock = 1.5 * kYearSeconds;  // T_w

  // Measured factors in place of assumed ones; empty: all assumed.
  Factors measured;
};

enum class Mode { kFlat, kHierarchical, kPipelineGroups, kPurePipeline };

// What the fall-backs and tables want said beside a number.
struct Warnings {
  bool hierarchy_fell_back = false;     // G < 2: computed flat
  bool pipeline_fell_back = false;      // G < 2: one pipeline over the WAN
  bool too_few_nodes = false;           // N < S: the model fits nowhere
  bool mfu_above_plausible = false;     // MFU > 0.60
  bool activation_table_ended = false;  // C_a above the table's last anchor: its q is held
  bool gradient_table_ended = false;    // C_r above the table's last anchor: its value is held
};

// What the model says of a scenario. Times s, data bit, compute FLOP.
struct Outcome {
  Mode mode = Mode::kFlat;
  Warnings warnings;
  int64_t stages = 1;    // S
  int64_t groups = 1;    // G: regional or pipeline groups
  int64_t replicas = 1;  // what eta_r counts
  double parameters = 0;
  double active_parameters = 0;
  double state_bytes = 0;    // training state, before it is cut into stages
  double payload_bits = 0;   // V_b, one direction
  double compute_time = 0;   // T_c without experts; t_c of a micro-batch and stage in a pipeline
  double expert_time = 0;    // T_EP
  double overhead = 0;       // T_EP / (T_c0 + T_EP)
  double transfer_time = 0;  // t_x
  double bubble = 0;         // (S-1)/(M+S-1)
  double step_time = 0;      // T_c, or T_step of a pipeline
  double regional_sync_time = 0;  // T_reg
  double sync_time = 0;           // T_sync or T_glob
  int64_t inner_steps = 1;        // H, or H_in
  int64_t regional_cycles = 1;    // H_R
  double effective_steps = 1;     // H_eff, in eta_H
  double outer_time = 0;          // from one global exchange to the next
  double alpha = 0;
  double eta_h = 1, eta_c = 1, eta_r = 1, eta_act = 1;
  double eta = 1;
  double raw = 0;    // C_raw
  double local = 0;  // C_local
  double chi = 1;
  double quality = 0;           // C_quality
  double tokens = 0;            // D
  double overtraining = 0;      // D/(r P_a)
  double cost = 0;              // USD
  double h100_equivalents = 0;  // of a node
};

}  // namespace longhaul::simulator
