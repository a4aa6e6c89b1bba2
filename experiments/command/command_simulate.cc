#include <filesystem>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/record/whole_file.h"
#include "experiments/report/plots.h"
#include "experiments/run/machine_check.h"
#include "experiments/run/reader.h"
#include "planning/simulator/break_even.h"
#include "planning/simulator/conclusions.h"
#include "planning/simulator/planning_table.h"
#include "planning/simulator/uncertainty.h"

namespace longhaul {
namespace {

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string csv;
  bool json = false;
  std::string calibration;
  std::string conclusions;
  std::string spread, tornado;
  std::string plots, python;  // a folder for figures, and who draws them
  std::string break_even;
  simulator::CalibrationChoice choice;
};

// Scenarios that are recomputed with measured factors: up to 10,000 draws each.
constexpr size_t kMostMeasured = 50;

absl::StatusOr<std::optional<simulator::CalibrationPlan>> ReadPlan(const SimulateOptions& options) {
  if (options.calibration.empty()) {
    if (options.conclusions.empty()) return std::nullopt;
    return absl::InvalidArgumentError(
        "--conclusions writes what a calibration changes; give --calibration FILE too");
  }
  absl::StatusOr<simulator::Calibration> calibration =
      simulator::ReadCalibration(options.calibration);
  if (!calibration.ok()) return calibration.status();
  absl::StatusOr<simulator::CalibrationPlan> plan =
      simulator::CalibrationPlan::Make(*std::move(calibration), options.choice);
  if (!plan.ok()) return plan.status();
  return *std::move(plan);
}

// A CSV beside the table; no path: none.
class CsvFile {
 public:
  explicit CsvFile(const std::string& path) {
    if (path.empty()) return;
    absl::StatusOr<WholeFile> file = WholeFile::Open(path);
    if (file.ok()) file_.emplace(*std::move(file));
    opened_ = file.status();
  }
  void Write(const std::string& text) {
    if (file_) file_->Write(text);
  }
  absl::Status Close() { return file_ ? file_->Close() : opened_; }
  void Discard() { file_.reset(); }

 private:
  absl::Status opened_;
  std::optional<WholeFile> file_;
};

absl::Status CheckRanges(const SimulateOptions& options, const simulator::ScenarioFile& file) {
  const bool ranges = file.assumptions.uncertain();
  if (ranges && !options.calibration.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: [assume] has a range and --calibration has intervals of its own; give one of the two",
        file.where));
  }
  if (!ranges && !(options.spread.empty() && options.tornado.empty() && options.plots.empty())) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: --spread, --tornado and --plots want a range [low, mid, high] in [assume], "
        "and it has none",
        file.where));
  }
  return absl::OkStatus();
}

// What follows the scenarios' own rows.
struct Answers {
  std::optional<simulator::CalibrationPlan> plan;
  std::vector<simulator::NamedScenario> measured;  // scenarios that `plan` is tried on
  std::vector<simulator::UncertainRow> uncertain;
  std::vector<simulator::Attribution> attributions;
  std::vector<simulator::MeasuredNumber> numbers;
  std::optional<simulator::BreakEven> sought;
  std::vector<simulator::BreakEvenRow> break_even;
};

// The ranges' CSV files in a folder, and their figures.
absl::Status WritePlots(const SimulateOptions& options, const std::string& spread,
                        const std::string& tornado) {
  if (options.plots.empty()) return absl::OkStatus();
  std::error_code failed;
  std::filesystem::create_directories(options.plots, failed);
  if (failed) {
    return absl::UnavailableError(
        fmt::format("cannot make the folder {}: {}", options.plots, failed.message()));
  }
  for (const auto& [name, text] : {std::pair("/spread.csv", spread), {"/tornado.csv", tornado}}) {
    if (absl::Status wrote = WriteWholeFile(options.plots + name, text); !wrote.ok()) return wrote;
  }
  return DrawPlots(options.python, {options.plots}, options.plots + "/plots.log");
}

absl::Status WriteAnswers(const SimulateOptions& options, const simulator::ScenarioFile& file,
                          const Answers& answers) {
  using namespace simulator;
  for (const auto& [path, text] :
       {std::pair(options.conclusions, answers.plan ? ConclusionsCsv(answers.attributions) : ""),
        {options.break_even,
         answers.sought ? BreakEvenCsv(file, *answers.sought, answers.break_even) : ""},
        {options.spread, SpreadCsv(file, answers.uncertain)},
        {options.tornado, TornadoCsv(file, answers.uncertain)}}) {
    if (path.empty()) continue;
    if (absl::Status wrote = WriteWholeFile(path, text); !wrote.ok()) return wrote;
  }
  return WritePlots(options, SpreadCsv(file, answers.uncertain),
                    TornadoCsv(file, answers.uncertain));
}

std::string AnswersJson(const simulator::ScenarioFile& file, const Answers& a) {
  std::vector<std::string> members;
  if (a.plan) {
    members.push_back("\"calibration\":" +
                      simulator::CalibrationJson(*a.plan, a.attributions, a.numbers));
  }
  if (!a.uncertain.empty()) {
    members.push_back("\"uncertainty\":" + simulator::UncertaintyJson(file, a.uncertain));
  }
  if (a.sought) {
    members.push_back("\"break_even\":" + simulator::BreakEvenJson(file, *a.sought, a.break_even));
  }
  return fmt::format("{}", fmt::join(members, ","));
}

std::string AnswersText(const simulator::ScenarioFile& file, const Answers& a) {
  std::string text;
  if (a.sought) text += "\n" + simulator::BreakEvenText(file, *a.sought, a.break_even);
  if (!a.uncertain.empty()) text += "\n" + simulator::UncertaintyText(file, a.uncertain);
  if (!a.plan) return text;
  return text +
         fmt::format(
             "\n{}\nThe scenarios of this file{}, with assumed and with measured factors:\n{}",
             simulator::ConclusionsText(*a.plan, a.attributions),
             a.measured.size() == kMostMeasured ? fmt::format(", the first {}", kMostMeasured) : "",
             simulator::MeasuredTable(a.numbers));
}

// [break_even] of the scenario file, where it has one.
absl::Status SeekBreakEven(const SimulateOptions& options, const TomlValue& root,
                           const simulator::ScenarioFile& file, Answers& answers) {
  absl::StatusOr<std::optional<simulator::BreakEven>> sought = simulator::ReadBreakEven(root, file);
  if (!sought.ok()) return sought.status();
  answers.sought = *std::move(sought);
  if (!answers.sought) {
    if (options.break_even.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: --break-even wants a table [break_even], and it has none", file.where));
  }
  auto rows = simulator::FindBreakEven(file, *answers.sought);
  if (rows.ok()) answers.break_even = *std::move(rows);
  return rows.status();
}

// The scenarios' own rows as they come out: the CSV, and the terminal's table or JSON. A file that
// chooses its columns needs all rows before it can show one.
class RowOutput {
 public:
  RowOutput(const SimulateOptions& options, const simulator::ScenarioFile& file)
      : options_(options), file_(file), csv_(options.csv), text_(file) {
    if (chosen()) return;
    csv_.Write(simulator::CsvHeader(file));
    if (options.json) json_ = simulator::JsonHead(file);
  }
  void Add(const simulator::ResultRow& row) {
    if (chosen()) return rows_.push_back(row);
    if (!options_.csv.empty()) csv_.Write(simulator::CsvLine(file_, row));
    if (!options_.json) return text_.Add(row);
    json_ += (first_ ? "\n" : ",\n") + simulator::JsonRow(file_, row);
    first_ = false;
  }
  void Discard() { csv_.Discard(); }
  // Closes the CSV. What stdout gets: the table; of JSON all up to where more members may follow.
  absl::StatusOr<std::string> Finish() {
    std::string shown = options_.json ? json_ : text_.Text();
    if (chosen()) {
      const simulator::PlanningCells cells(file_, std::move(rows_));
      csv_.Write(simulator::PlanningCsv(cells));
      shown = options_.json ? simulator::PlanningJson(cells) : simulator::PlanningText(cells);
    }
    if (absl::Status closed = csv_.Close(); !closed.ok()) return closed;
    return shown;
  }

 private:
  bool chosen() const { return file_.table.any(); }

  const SimulateOptions& options_;
  const simulator::ScenarioFile& file_;
  CsvFile csv_;
  simulator::ResultText text_;
  std::string json_;
  bool first_ = true;
  std::vector<simulator::ResultRow> rows_;
};

// Runs every scenario and keeps what ranges and a calibration are asked of it.
absl::Status RunRows(const simulator::ScenarioFile& file, RowOutput& shown, Answers& answers) {
  return simulator::RunScenarios(file, [&](const simulator::ResultRow& row) {
    shown.Add(row);
    const std::string name = simulator::NameOf(file, row.at);
    if (file.assumptions.uncertain()) {
      answers.uncertain.push_back(
          {name, row.at, simulator::Propagate(row.scenario, file.assumptions)});
    }
    if (answers.plan && answers.measured.size() < kMostMeasured) {
      answers.measured.push_back({name, row.scenario});
      if (const auto& search = file.search) {
        answers.measured.back().sought = {search->target, row.at_least, search->most_nodes};
      }
    }
  });
}

absl::Status RunSimulate(const SimulateOptions& options) {
  const absl::StatusOr<TomlValue> root = ReadTomlFile(options.scenario, options.set);
  if (!root.ok()) return root.status();
  const absl::StatusOr<simulator::ScenarioFile> file = simulator::ReadScenarioFile(*root);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::optional<simulator::CalibrationPlan>> plan = ReadPlan(options);
  if (!plan.ok()) return plan.status();
  if (const absl::Status fits = CheckRanges(options, *file); !fits.ok()) return fits;
  Answers answers;
  answers.plan = *std::move(plan);
  if (const absl::Status sought = SeekBreakEven(options, *root, *file, answers); !sought.ok()) {
    return sought;
  }
  RowOutput rows(options, *file);
  if (const absl::Status status = RunRows(*file, rows, answers); !status.ok()) {
    rows.Discard();
    return status;
  }
  const absl::StatusOr<std::string> shown = rows.Finish();
  if (!shown.ok()) return shown.status();
  if (answers.plan) {
    answers.attributions = simulator::Attribute(*answers.plan);
    answers.numbers = simulator::MeasureScenarios(*answers.plan, answers.measured);
  }
  if (const absl::Status wrote = WriteAnswers(options, *file, answers); !wrote.ok()) return wrote;
  if (options.json) {
    fmt::print("{}{}\n", *shown, simulator::JsonTail(AnswersJson(*file, answers)));
  } else {
    fmt::print("{}\n{}{}", simulator::ProfileText(*file), *shown, AnswersText(*file, answers));
  }
  return absl::OkStatus();
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "the planning model: what compute a network of nodes delivers");
  command->add_option("scenario", options->scenario, "scenario file (docs/simulator.md)")
      ->required();
  command->add_option("--set", options->set, "override a key: network.nodes=500")->take_all();
  command->add_option("--csv", options->csv, "write every column of every row into this file");
  command->add_flag("--json", options->json, "one JSON document on stdout");
  command->add_option(
      "--calibration", options->calibration,
      "Use measured factors from FILE: calibration.json, as `longhaul report` writes it");
  command->add_option("--spread", options->spread,
                      "ranges in [assume]: write median and 90 % interval into this CSV");
  command->add_option("--tornado", options->tornado,
                      "ranges in [assume]: write what each factor moves into this CSV");
  command->add_option(
      "--plots", options->plots,
      "ranges in [assume]: a folder for fan.svg and tornado.svg with their CSV files");
  options->python = ReaderPython();
  command->add_option("--python", options->python, "with --plots: an interpreter with matplotlib")
      ->capture_default_str();
  command->add_option("--break-even", options->break_even,
                      "a table [break_even]: write where it is for each scenario into this CSV");
  command->add_option("--conclusions", options->conclusions,
                      "with --calibration: write every conclusion into this CSV");
  command->add_option("--codec", options->choice.codec, "which of the calibration's codecs");
  command->add_flag("--extrapolate", options->choice.extrapolate,
                    "scale the measured alpha of eta_H to other sizes");
  command->callback(Calling(RunSimulate, options, exit_status));
}

}  // namespace longhaul
