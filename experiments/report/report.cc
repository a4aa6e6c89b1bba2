#include "experiments/report/report.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "experiments/record/record.h"
#include "experiments/record/whole_file.h"
#include "experiments/report/html.h"
#include "experiments/report/plots.h"
#include "experiments/report/report_curves.h"
#include "experiments/report/report_data.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

// Every table of the record, as it is.
absl::Status WriteRawTables(const Record& record, const std::string& folder) {
  if (absl::Status s = MakeReportFolder(folder); !s.ok()) return s;
  const auto tables = record.Rows(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  if (!tables.ok()) return tables.status();
  for (size_t i = 1; i < tables->size(); ++i) {  // 0: the column's name
    const std::string& table = (*tables)[i].at(0);
    const auto rows = record.Rows(fmt::format("SELECT * FROM {}", table));
    if (!rows.ok()) return rows.status();
    if (absl::Status s = WriteWholeFile(fmt::format("{}/{}.csv", folder, table), Csv(*rows));
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

// What report/plots/ draws of an experiment.
constexpr const char* kFigures[] = {"reference", "residuals", "depth",      "forest", "training",
                                    "simulated", "pareto",    "step_times", "diloco", "traffic"};

absl::Status WriteExperimentFiles(const Record& record, const ReportedExperiment& e,
                                  const std::string& folder) {
  if (absl::Status s = MakeReportFolder(folder); !s.ok()) return s;
  const absl::StatusOr<CsvRows> training = TrainingCsv(record, e);
  if (!training.ok()) return training.status();
  std::vector<std::pair<std::string, std::string>> files = {
      {"step_times.csv", Csv(CsvRowsOf(StepTimesTable(e.step_times)))},
      {"training.csv", Csv(*training)}};
  if (e.timing) files.emplace_back("timing.csv", Csv(CsvRowsOf(TimingTable(*e.timing))));
  if (e.campaign) {
    files.emplace_back("curve.csv", Csv(CurveCsv(*e.campaign)));
    files.emplace_back("fit.csv", Csv(FitCsv(*e.campaign)));
    files.emplace_back("losses.csv", Csv(LossesCsv(*e.campaign)));
    files.emplace_back("arms.csv", Csv(ArmsCsv(*e.campaign)));
    files.emplace_back("joint.csv", Csv(JointCsv(*e.campaign)));
    files.emplace_back("depth_models.csv", Csv(DepthCsv(*e.campaign)));
    files.emplace_back("diloco.csv", Csv(DilocoCsv(*e.campaign)));
    files.emplace_back("residuals.csv", Csv(ResidualsCsv(*e.campaign)));
    const auto wire = ArmsOnTheWire(record, *e.campaign);
    if (!wire.ok()) return wire.status();
    const auto pareto = ParetoCsv(record, *e.campaign);
    if (!pareto.ok()) return pareto.status();
    files.emplace_back("pareto.csv", Csv(*pareto));
    files.emplace_back("wire.csv", Csv(WireCsv(*wire)));
    files.emplace_back("calibration.json", CalibrationJson(*e.campaign));
  }
  for (const auto& [name, text] : files) {
    if (absl::Status s = WriteWholeFile(folder + "/" + name, text); !s.ok()) return s;
  }
  // A figure of an earlier report must not pass for one of this record.
  for (const char* figure : kFigures) {
    std::error_code ignored;
    std::filesystem::remove(fmt::format("{}/{}.svg", folder, figure), ignored);
  }
  return absl::OkStatus();
}

Figures ReadFigures(const std::string& folder) {
  Figures figures;
  for (const char* name : kFigures) {
    const std::string svg = ReadSvg(fmt::format("{}/{}.svg", folder, name));
    if (!svg.empty()) figures[name] = svg;
  }
  return figures;
}

// What the page is about: campaigns ask for q, grids and shaped runs for times.
std::string_view Title(const std::vector<ReportedExperiment>& experiments) {
  const auto any = [&](auto has) {
    return std::any_of(experiments.begin(), experiments.end(), has);
  };
  if (any([](const ReportedExperiment& e) { return e.campaign.has_value(); })) {
    return "What a pipeline boundary costs";
  }
  if (any([](const ReportedExperiment& e) { return e.timing.has_value(); })) {
    return "Which codec pays on which links";
  }
  const auto shaped = [](const RunRow& run) { return run.profile != "loopback"; };
  if (any([&](const ReportedExperiment& e) {
        return std::any_of(e.runs.begin(), e.runs.end(), shaped);
      })) {
    return "What a step takes over its links";
  }
  return "How the loss fell";
}

std::string Header(const Record& record, const std::vector<ReportedExperiment>& experiments) {
  std::string out = fmt::format(
      "<header><h1>{}</h1>\n<p>Record {}, "
      "{} experiment{}; written {}.</p>\n",
      Title(experiments), HtmlEscape(record.folder() + "/" + kRecordFile), experiments.size(),
      experiments.size() == 1 ? "" : "s", UtcNow().substr(0, 16));
  for (const ReportedExperiment& e : experiments) {
    if (!e.campaign) continue;
    out += fmt::format("<p class=\"first\">{}: {}</p>\n", HtmlEscape(e.row.name),
                       HtmlEscape(e.campaign->Resolvable()));
  }
  return out + "</header>\n";
}

}  // namespace

absl::StatusOr<std::string> WriteReport(const Record& record, const ReportOptions& options) {
  const std::string out = options.out.empty() ? record.folder() + "/report" : options.out;
  if (absl::Status s = WriteRawTables(record, out + "/tables"); !s.ok()) return s;
  absl::StatusOr<std::vector<ExperimentRow>> rows = record.Experiments();
  if (!rows.ok()) return rows.status();
  std::vector<ReportedExperiment> experiments;
  std::vector<std::string> folders;
  for (const ExperimentRow& row : *rows) {
    absl::StatusOr<ReportedExperiment> e = ReadExperiment(record, row);
    if (!e.ok()) return e.status();
    if (e->runs.empty()) continue;
    folders.push_back(out + "/" + e->folder);
    if (absl::Status s = WriteExperimentFiles(record, *e, folders.back()); !s.ok()) return s;
    experiments.push_back(*std::move(e));
  }
  std::string figures_note;
  if (options.python.empty()) {
    figures_note = "no Python interpreter was given.";
  } else if (const absl::Status s = DrawPlots(options.python, folders, out + "/plots.log");
             !s.ok()) {
    figures_note = std::string(s.message()) + " (matplotlib is needed to draw).";
  }
  std::string body = Header(record, experiments);
  for (size_t i = 0; i < experiments.size(); ++i) {
    absl::StatusOr<std::string> section =
        ExperimentSection(record, experiments[i], ReadFigures(folders[i]), figures_note);
    if (!section.ok()) return section.status();
    body += *section;
  }
  const std::string index = out + "/index.html";
  const std::string title =
      "longhaul: " + std::filesystem::path(record.folder()).filename().string();
  if (absl::Status s = WriteWholeFile(index, HtmlPage(title, body)); !s.ok()) return s;
  return index;
}

}  // namespace longhaul
