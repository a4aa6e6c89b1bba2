#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/simulator/result_table.h"

namespace longhaul {
namespace {

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string csv;
  bool json = false;
};

absl::StatusOr<simulator::ScenarioFile> ReadScenario(const SimulateOptions& options) {
  absl::StatusOr<TomlValue> root = ReadTomlFile(options.scenario);
  if (!root.ok()) return root.status();
  for (const std::string& assignment : options.set) {
    if (const absl::Status status = SetByPath(*root, assignment); !status.ok()) return status;
  }
  return simulator::ReadScenarioFile(*root);
}

// A CSV beside the table. Written under a name of its own first, so that no half of it is left.
class CsvFile {
 public:
  explicit CsvFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) out_.open(path_ + ".part", std::ios::trunc);
  }
  void Write(const std::string& text) {
    if (!path_.empty()) out_ << text;
  }
  absl::Status Close() {
    if (path_.empty()) return absl::OkStatus();
    out_.close();
    if (out_ && std::rename((path_ + ".part").c_str(), path_.c_str()) == 0) return absl::OkStatus();
    const std::string why = std::strerror(errno);
    std::remove((path_ + ".part").c_str());
    return absl::UnavailableError(fmt::format("cannot write {}: {}", path_, why));
  }
  void Discard() {
    if (!path_.empty()) std::remove((path_ + ".part").c_str());
  }

 private:
  const std::string path_;
  std::ofstream out_;
};

absl::Status RunSimulate(const SimulateOptions& options) {
  const absl::StatusOr<simulator::ScenarioFile> file = ReadScenario(options);
  if (!file.ok()) return file.status();
  CsvFile csv(options.csv);
  csv.Write(simulator::CsvHeader(*file));
  simulator::ResultText text(*file);
  std::string json = options.json ? simulator::JsonHead(*file) : "";
  bool first = true;
  const absl::Status status =
      simulator::RunScenarios(*file, {}, [&](const simulator::ResultRow& row) {
        csv.Write(options.csv.empty() ? "" : simulator::CsvLine(*file, row));
        if (options.json) {
          json += (first ? "\n" : ",\n") + simulator::JsonRow(*file, row);
          first = false;
        } else {
          text.Add(row);
        }
      });
  if (!status.ok()) {
    csv.Discard();
    return status;
  }
  if (const absl::Status closed = csv.Close(); !closed.ok()) return closed;
  if (options.json) {
    fmt::print("{}{}\n", json, simulator::JsonTail());
  } else {
    fmt::print("{}\n{}", simulator::ProfileText(*file), text.Text());
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
  command->callback([options, exit_status] {
    const absl::Status status = RunSimulate(*options);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace longhaul
