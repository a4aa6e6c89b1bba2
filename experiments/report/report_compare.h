#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"
#include "experiments/report/report_data.h"

namespace longhaul {

// Two records beside each other: the same plan on another machine or by another version, or two
// plans with arms of the same name. Estimates of both are computed here and now, by one program.

// One quantity that both records have, or that one of them lacks.
struct ComparedEstimate {
  std::string arm, evaluation, quantity, unit;
  std::optional<EstimateRow> a, b;
  // b - a. The interval is MOVER's (Zou and Donner 2008, from the two intervals): it takes the two
  // for independent. Seeds that both have make it wider than it need be, never narrower.
  std::optional<Measured> difference = std::nullopt;
  std::string note = {};  // why there is no difference, or no interval
  bool Apart() const;     // the interval excludes 0
};

// "train.lr 0.003 > 0.002" and the arms that it was found in.
struct ComparedSetting {
  std::string text;
  std::vector<std::string> arms;
};

struct ComparedExperiment {
  std::string a, b;  // names
  bool same_plan = false;
  int64_t arms_of_a = 0, arms_of_b = 0, arms = 0;
  // Runs of one arm and seed in both, with a final loss (codec off at evaluation); how many of them
  // have the very same bits of it, and the widest that two are apart (nat).
  int64_t runs = 0, identical = 0;
  double widest_nat = 0;
  std::vector<ComparedSetting> settings = {};  // keys of the spec
  std::vector<ComparedSetting> machines = {};  // cpu, torch, revision ...: "cpu: X > Y"; no arms
  std::vector<ComparedEstimate> estimates = {};
  std::string first_lines_a, first_lines_b;  // what each could resolve, where it is a campaign
};

struct RecordComparison {
  std::string a, b;  // folders
  std::vector<ComparedExperiment> experiments = {};
  std::vector<std::string> only_a = {}, only_b = {};  // names of experiments
};

// Experiments are matched by kind and name, the newest of several; where each record has one
// campaign, these two whatever they are called. FailedPrecondition: they have none in common.
absl::StatusOr<RecordComparison> CompareRecords(const Record& a, const Record& b);

std::string ComparisonText(const RecordComparison& comparison);
CsvRows CompareCsv(const RecordComparison& comparison);

// Writes OUT/index.html, OUT/compare.csv and OUT/compare.svg; returns the path of the page.
absl::StatusOr<std::string> WriteComparison(const RecordComparison& comparison,
                                            const std::string& python, const std::string& out);

}  // namespace longhaul
