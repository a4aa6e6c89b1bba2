// The verbs of Python as `longhaul --help` lists them, and `_export-weights`, which the one of them asks for.
#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/run/reader.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/train/weight_files.h"

namespace longhaul {
namespace {

struct ExportArguments {
  std::string results, spec, out;
};

absl::Status ExportToSafetensors(const ExportArguments& arguments) {
  const absl::StatusOr<RunSpec> spec = LoadRunSpec(arguments.spec, {}, CatalogNames());
  if (!spec.ok()) return spec.status();
  RETURN_IF_ERROR(ExportWeights(arguments.results, *spec, arguments.out));
  fmt::print("safetensors: the model's weights in {}\n", arguments.out);
  return absl::OkStatus();
}

}  // namespace

void AddReaderCommands(CLI::App& app, std::string_view group, int* exit_status) {
  for (const ReaderVerb& verb : kReaderVerbs) {
    if (verb.group != group) continue;
    CLI::App* command = app.add_subcommand(std::string(verb.name), verb.description);
    command->group(std::string(verb.group));
    command->set_help_flag();  // the verb's own says more
    command->prefix_command();
    command->callback([command, exit_status] {
      std::vector<std::string> words = command->remaining();
      words.insert(words.begin(), command->get_name());
      *exit_status = Fail(BecomeReader(std::move(words)));
    });
  }
}

void AddExportWeightsCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* weights = app.add_subcommand("_export-weights", "")->group("");
  weights->add_option("results", arguments->results)->required();
  weights->add_option("spec", arguments->spec)->required();
  weights->add_option("out", arguments->out)->required();
  weights->callback(Calling(ExportToSafetensors, arguments, exit_status));
}

}  // namespace longhaul
