#include <algorithm>

#include "experiments/command/command.h"

namespace longhaul {
namespace {

// Words of `net exec LAB/NODE [--] CMD...` and `net run LINKS -- CMD...` that are ours; 0: there is
// no program among them.
size_t WordsBeforeProgram(const std::vector<std::string>& words) {
  if (words.size() > 2 && words[0] == "net" && words[1] == "run") {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    return dashes == words.end() ? 0 : static_cast<size_t>(dashes - words.begin());
  }
  const bool is_exec = words.size() > 2 && words[0] == "net" && words[1] == "exec";
  return is_exec && !words[2].starts_with("-") ? 3 : 0;  // such as net exec --help
}

}  // namespace

int RunCommandLine(CLI::App& app, int argc, char** argv, std::vector<std::string>* program,
                   const int* exit_status) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (const size_t own = WordsBeforeProgram(words); own > 0) {
    const bool dashes = words.size() > own && words[own] == "--";
    program->assign(words.begin() + static_cast<std::ptrdiff_t>(own + dashes), words.end());
    words.resize(own);
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.name(argv[0]);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return *exit_status;
}

}  // namespace longhaul
