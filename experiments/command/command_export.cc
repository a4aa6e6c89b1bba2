// `export` is the Python package's: this finds the interpreter and hands over.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/record/record.h"
#include "experiments/report/plots_script.h"
#include "experiments/run/machine_check.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/train/export_weights.h"

namespace longhaul {
namespace {

struct ExportArguments {
  std::string results, to, out, python, spec;
};

// Weights lie in checkpoints, and what they are of in the run's spec.
absl::Status ExportToSafetensors(const ExportArguments& arguments) {
  if (arguments.spec.empty()) {
    return absl::InvalidArgumentError(
        "--to safetensors needs --spec SPEC.toml, the spec of the run whose checkpoints these are");
  }
  const absl::StatusOr<RunSpec> spec = LoadRunSpec(arguments.spec, {}, CatalogNames());
  if (!spec.ok()) return spec.status();
  if (absl::Status s = ExportWeights(arguments.results, *spec, arguments.out); !s.ok()) return s;
  fmt::print("safetensors: the model's weights in {}\n", arguments.out);
  return absl::OkStatus();
}

// Becomes the interpreter where Python writes the format: then it returns only a failure.
absl::Status Export(const ExportArguments& arguments) {
  if (arguments.to == "safetensors") return ExportToSafetensors(arguments);
  // A record of another version is refused here, in the words of every other command.
  if (const auto record = Record::Open(arguments.results, Record::Mode::kRead); !record.ok()) {
    return record.status();
  }
  std::vector<std::string> words = {
      arguments.python,         "-c", kExportScript,    "--to=" + arguments.to,
      "--out=" + arguments.out, "--", arguments.results};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(arguments.python.c_str(), argv.data());
  return absl::FailedPreconditionError(fmt::format(
      "start {}: {}; name an interpreter with --python", arguments.python, std::strerror(errno)));
}

}  // namespace

void AddExportCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<ExportArguments>();
  arguments->python = PlotPython();
  CLI::App* command = app.add_subcommand(
      "export", "the record for other tools; reads only, and sends nothing anywhere");
  command
      ->add_option("results", arguments->results,
                   "folder of the record; of checkpoints with --to safetensors")
      ->required();
  command->add_option("--to", arguments->to, "format")
      ->required()
      ->check(CLI::IsMember({"parquet", "tensorboard", "wandb", "mlflow", "safetensors"}));
  command->add_option("--out", arguments->out, "folder to write into; new or empty")->required();
  command->add_option("--spec", arguments->spec,
                      "with --to safetensors: the run's spec, as it was resolved");
  command->add_option("--python", arguments->python,
                      "interpreter that has the tool's package (default: the build's)");
  command->callback(Calling(Export, arguments, exit_status));
}

}  // namespace longhaul
