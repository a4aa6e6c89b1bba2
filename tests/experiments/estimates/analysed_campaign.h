#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/estimates/campaign_analysis.h"
#include "tests/experiments/record/synthetic_record.h"

namespace longhaul {

// A record of its own, and what the analysis makes of a synthetic campaign in it.
class AnalysedCampaign : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "campaign_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    record_.emplace(*Record::Open(folder_, Record::Mode::kWrite));
  }
  void TearDown() override {
    record_.reset();
    std::filesystem::remove_all(folder_);
  }
  CampaignAnalysis Analysed(int64_t experiment) {
    const std::vector<ExperimentRow> experiments = *record_->Experiments();
    for (const ExperimentRow& e : experiments) {
      if (e.id == experiment) return *Analyse(*record_, e);
    }
    ADD_FAILURE();
    return {};
  }
  CampaignAnalysis Analysed(const SyntheticWorld& world) {
    return Analysed(WriteSyntheticCampaign(*record_, world));
  }

  static const ArmResult& Arm(const CampaignAnalysis& a, const std::string& name) {
    for (const ArmResult& arm : a.arms) {
      if (arm.arm == name) return arm;
    }
    ADD_FAILURE() << name;
    return a.arms.front();
  }

  // sd of the paired differences of the arms with a q and the control, three seeds each.
  static double PooledByHand(const CampaignAnalysis& a, const std::vector<const char*>& arms = {
                                                            "control@0.9", "s2", "s4", "s8"}) {
    double squares = 0;
    for (const char* name : arms) {
      const auto& deltas = Arm(a, name).off->delta_by_seed;
      double mean = 0;
      for (const auto& [seed, delta] : deltas) mean += delta / 3;
      for (const auto& [seed, delta] : deltas) squares += (delta - mean) * (delta - mean);
    }
    // Two degrees of freedom each.
    return std::sqrt(squares / (static_cast<double>(arms.size()) * 2));
  }

  std::string folder_;
  std::optional<Record> record_;
};

}  // namespace longhaul
