// Golden rows of PP-Group DiLoCo: every printed column, and the flat runs beside them.
#include <gtest/gtest.h>

#include "planning/simulator/profiles.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

struct PipelineRow {
  int64_t nodes;
  double billions;
  int64_t stages, groups;
  const char *step, *sync;
  int64_t h;
  const char *ratio, *eta_act, *eta, *local, *chi, *quality;
};

constexpr PipelineRow kA100[] = {
    {72, 360, 2, 36, "49.069", "9061.3", 185, "0.5", "0.990", "0.854", "8.39e+24", "1.000",
     "8.39e+24"},
    {72, 480, 2, 36, "61.380", "12081.7", 197, "0.3", "0.990", "0.854", "8.95e+24", "0.957",
     "8.56e+24"},
    {72, 960, 4, 18, "90.183", "23203.2", 258, "0.1", "0.970", "0.836", "5.96e+24", "0.565",
     "3.37e+24"},
    {72, 1920, 8, 9, "153.410", "44486.4", 290, "0.0", "0.932", "0.805", "3.38e+24", "0.189",
     "6.38e+23"},
    {500, 480, 2, 250, "61.380", "13423.7", 219, "2.1", "0.990", "0.852", "6.20e+25", "0.902",
     "5.59e+25"},
    {500, 600, 3, 166, "65.909", "16425.2", 250, "1.0", "0.980", "0.842", "4.74e+25", "0.999",
     "4.73e+25"},
    {500, 720, 3, 166, "75.610", "19710.2", 261, "0.7", "0.980", "0.842", "4.96e+25", "1.000",
     "4.96e+25"},
    {500, 960, 4, 125, "90.183", "25887.3", 288, "0.3", "0.970", "0.834", "4.13e+25", "0.985",
     "4.07e+25"},
    {500, 1440, 6, 83, "120.764", "37980.2", 315, "0.1", "0.951", "0.818", "3.01e+25", "0.783",
     "2.36e+25"},
    {500, 1920, 8, 62, "153.410", "49832.2", 325, "0.1", "0.932", "0.803", "2.32e+25", "0.578",
     "1.34e+25"},
    {4000, 480, 2, 2000, "61.380", "14863.7", 243, "16.5", "0.990", "0.849", "4.95e+26", "0.409",
     "2.02e+26"},
    {4000, 720, 3, 1333, "75.610", "21874.1", 290, "5.9", "0.980", "0.840", "3.97e+26", "0.652",
     "2.59e+26"},
    {4000, 960, 4, 1000, "90.183", "28767.3", 319, "2.8", "0.970", "0.832", "3.30e+26", "0.833",
     "2.75e+26"},
    {4000, 1200, 5, 800, "105.220", "35572.8", 339, "1.5", "0.961", "0.823", "2.80e+26", "0.948",
     "2.65e+26"},
    {4000, 1440, 6, 666, "120.764", "42306.5", 351, "0.9", "0.951", "0.816", "2.41e+26", "1.000",
     "2.41e+26"},
    {4000, 1920, 8, 500, "153.410", "55614.5", 363, "0.4", "0.932", "0.801", "1.87e+26", "1.000",
     "1.87e+26"},
};

// Multiples of the node's own 91.43 B; 480 is configuration I.
constexpr PipelineRow kH100[] = {
    {2000, 365.714286, 4, 500, "22.430", "5296.7", 237, "14.8", "0.970", "0.831", "2.52e+26",
     "0.436", "1.10e+26"},
    {2000, 457.142857, 5, 400, "26.583", "6547.3", 247, "8.0", "0.961", "0.824", "2.11e+26",
     "0.582", "1.23e+26"},
    {2000, 480, 6, 333, "28.358", "6811.2", 241, "5.9", "0.951", "0.816", "1.71e+26", "0.656",
     "1.12e+26"},
    {2000, 548.571429, 6, 333, "30.891", "7784.2", 252, "4.8", "0.951", "0.816", "1.80e+26",
     "0.710", "1.28e+26"},
    {2000, 731.428571, 8, 250, "39.989", "10227.6", 256, "2.1", "0.932", "0.802", "1.36e+26",
     "0.898", "1.23e+26"},
};

void ExpectRow(const PipelineRow& row, Scenario s) {
  SCOPED_TRACE(testing::Message() << row.nodes << " nodes, " << row.billions << " B");
  s.parameters = row.billions * 1e9;
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.mode, Mode::kPipelineGroups);
  EXPECT_EQ(out.stages, row.stages);
  EXPECT_EQ(out.groups, row.groups);
  EXPECT_EQ(Printed("%.3f", out.step_time), row.step);
  EXPECT_EQ(Printed("%.1f", out.sync_time), row.sync);
  EXPECT_EQ(out.inner_steps, row.h);
  EXPECT_EQ(Printed("%.1f", out.overtraining), row.ratio);
  EXPECT_EQ(Printed("%.3f", out.eta_act), row.eta_act);
  EXPECT_EQ(Printed("%.3f", out.eta), row.eta);
  EXPECT_EQ(Printed("%.2e", out.local), row.local);
  EXPECT_EQ(Printed("%.3f", out.chi), row.chi);
  EXPECT_EQ(Printed("%.2e", out.quality), row.quality);
}

TEST(SimulatorPipeline, GroupsOfA100Nodes) {
  for (const PipelineRow& row : kA100) {
    ExpectRow(row, A100Nodes(row.nodes, ProfileName::kGovernancePp));
  }
}

TEST(SimulatorPipeline, GroupsOfH100NodesInFp8) {
  for (PipelineRow row : kH100) {
    Scenario s = H100Fp8Nodes(row.nodes, ProfileName::kGovernancePp);
    if (row.stages == 4 || row.stages == 5 || row.stages == 8 || row.billions > 500) {
      // The exact multiple: a stage count of 4.0000001 would be 5.
      const double node = s.memory_bytes / StateBytesPerParameter(s.precision) / 1e9;
      row.billions = std::round(row.billions / node) * node;
    }
    ExpectRow(row, s);
  }
}

TEST(SimulatorPipeline, ReplicasAreGroups) {
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  const Outcome out = Simulate(s);
  EXPECT_EQ(out.replicas, 1000);
  EXPECT_EQ(out.eta_r, 1 - 0.005 * (2.4 / 960) * std::log2(1000.0));
}

TEST(SimulatorPipeline, FlatRunsBesideThem) {
  struct Row {
    Scenario scenario;
    const char *quality, *chi;
  };
  for (const Row& row :
       {Row{A100Nodes(72, ProfileName::kGovernancePp), "1.55e+25", "0.884"},
        Row{A100Nodes(500, ProfileName::kGovernancePp), "5.11e+25", "0.421"},
        Row{A100Nodes(4000, ProfileName::kGovernancePp), "1.06e+26", "0.110"},
        Row{H100Fp8Nodes(2000, ProfileName::kGovernancePp), "2.29e+25", "0.023"}}) {
    const Outcome out = Simulate(row.scenario);
    EXPECT_EQ(Printed("%.2e", out.quality), row.quality);
    EXPECT_EQ(Printed("%.3f", out.chi), row.chi);
  }
}

// T_step of 4000 nodes and 960 B: 90.2 s; about half where links hide behind compute.
TEST(SimulatorPipeline, OverlapHidesTheLinks) {
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  s.switches.boundary_overlap = true;
  const Outcome out = Simulate(s);
  EXPECT_EQ(Printed("%.0f", out.step_time), "47");
  s.switches.boundary_overlap = false;
  EXPECT_LT(out.step_time, Simulate(s).step_time);
}

TEST(SimulatorPipeline, SwitchesChangeWhatTheySay) {
  Scenario s = A100Nodes(4000, ProfileName::kGovernancePp);
  s.parameters = 960e9;
  const Outcome base = Simulate(s);
  s.switches.micro_compute = MicroCompute::kWholeModel;
  EXPECT_NEAR_REL(Simulate(s).compute_time, 4 * base.compute_time);
  s.switches.micro_compute = MicroCompute::kPerStage;
  s.switches.stage_parallel_sync = true;
  EXPECT_LT(Simulate(s).sync_time, base.sync_time / 3.9);
  s.switches.stage_parallel_sync = false;
  s.switches.pipeline_links = PipelineLinks::kWan;
  EXPECT_NEAR_REL(Simulate(s).transfer_time, 10 * base.transfer_time);
  EXPECT_EQ(Printed("%.3f", base.bubble), "0.273");  // 3/11
}

}  // namespace
}  // namespace longhaul::simulator
