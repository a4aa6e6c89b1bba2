#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"
#include "experiments/report/report_data.h"

namespace longhaul {

// Figures of one experiment: file name without ending -> inline SVG. Empty: none could be drawn.
using Figures = std::map<std::string, std::string>;

// One experiment as HTML. `figures_note`: why there are no figures; empty when there are.
absl::StatusOr<std::string> ExperimentSection(const Record& record, const ReportedExperiment& e,
                                              const Figures& figures,
                                              const std::string& figures_note);

// The parts, in report_campaign.cc and report_runs.cc.
// Rows of the table of what arms change and send; see report_errors.cc.
absl::StatusOr<std::string> WirePart(const Record& record, const CampaignAnalysis& a);
// The error of every boundary over the training; "" where none was measured. See report_errors.cc.
absl::StatusOr<std::string> ErrorsPart(const Record& record, const CampaignAnalysis& a);
std::string CampaignPart(const CampaignAnalysis& a, const std::string& wire,
                         const Figures& figures);
absl::StatusOr<std::string> TimingPart(const Record& record, const ReportedExperiment& e,
                                       const Figures& figures);
std::string RunsPart(const ReportedExperiment& e);
// Per arm: hashes of data, held-out text, weights and links, epochs, build and machine. In
// report_provenance.cc.
std::string ProvenancePart(const ReportedExperiment& e);
// Runs whose boundaries changed codecs: every change with its cause. In report_faults.cc; "": none.
absl::StatusOr<std::string> SwitchesPart(const Record& record, const ReportedExperiment& e);
// Runs whose groups came and went: the loss with the faults on it. In report_faults.cc; "": none.
absl::StatusOr<std::string> FaultsPart(const Record& record, const ReportedExperiment& e);

// A figure with its caption; "" when it was not drawn.
std::string FigureHtml(const Figures& figures, const std::string& name, const std::string& caption);

}  // namespace longhaul
