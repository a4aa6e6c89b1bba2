#pragma once

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "experiments/estimates/campaign_analysis.h"
#include "tests/experiments/synthetic_record.h"

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

  std::string folder_;
  std::optional<Record> record_;
};

}  // namespace longhaul
