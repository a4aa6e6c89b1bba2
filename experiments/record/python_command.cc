#include "experiments/record/python_command.h"

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

// The package stands beside this program in a build tree, and around it where pip has installed it.
absl::StatusOr<std::string> FolderOfPackage() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path here = self.parent_path();
  for (const std::filesystem::path& folder : {here / "python", here.parent_path().parent_path()}) {
    if (std::filesystem::exists(folder / "longhaul" / "commands" / "__init__.py", error))
      return folder.string();
  }
  return absl::NotFoundError(fmt::format(
      "the Python package is not beside {}: build or install longhaul again", self.string()));
}

// What runs `main` of a module of the package.
std::string StartOf(const std::string& module) {
  return fmt::format(
      "import sys; sys.path.insert(0, sys.argv.pop(1)); from longhaul.{} import main; "
      "sys.exit(main(sys.argv[1:]))",
      module);
}

}  // namespace

std::string ReaderPython() {
  const char* const set = std::getenv("LONGHAUL_PYTHON");
  return set != nullptr && *set != '\0' ? set : LONGHAUL_PYTHON;
}

absl::StatusOr<std::vector<std::string>> CommandOfModule(const std::string& module,
                                                         std::vector<std::string> words) {
  ASSIGN_OR_RETURN(const std::string folder, FolderOfPackage());
  // -B: it writes nothing into the package.
  std::vector<std::string> command = {ReaderPython(), "-B", "-c", StartOf(module), folder};
  command.insert(command.end(), std::make_move_iterator(words.begin()),
                 std::make_move_iterator(words.end()));
  return command;
}

std::vector<char*> Argv(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace longhaul
