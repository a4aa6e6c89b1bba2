#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/standard_output.h"

namespace longhaul {
namespace {

// Words of `net exec LAB/NODE [--] CMD...`, `net run LINKS -- CMD...` and `launch .. -- CMD...` that
// are ours; 0: there is no program among them.
size_t WordsBeforeProgram(const std::vector<std::string>& words) {
  const bool is_launch = !words.empty() && words[0] == "launch";
  if (is_launch || (words.size() > 2 && words[0] == "net" && words[1] == "run")) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    return dashes == words.end() ? 0 : static_cast<size_t>(dashes - words.begin());
  }
  const bool is_exec = words.size() > 2 && words[0] == "net" && words[1] == "exec";
  return is_exec && !words[2].starts_with("-") ? 3 : 0;  // such as net exec --help
}

// Single-character edits from `a` to `b`.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// The parser says of an unknown command only that one is required. "": the words name commands that
// are there, or begin with an option, or `app` has no commands.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& words) {
  constexpr size_t kMostEdits = 2, kShownBytes = 64;
  const CLI::App* at = &app;
  std::string before = "longhaul";
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands =
        at->get_subcommands([](const CLI::App* c) { return !c->get_name().empty(); });
    if (commands.empty() || word.starts_with("-")) return "";
    const auto named = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* c) { return c->check_name(word); });
    if (named != commands.end()) {
      at = *named;
      before += " " + word;
      continue;
    }
    const std::string shown = word.substr(0, kShownBytes);
    const CLI::App* const near = *std::min_element(
        commands.begin(), commands.end(), [&](const CLI::App* a, const CLI::App* b) {
          return EditDistance(shown, a->get_name()) < EditDistance(shown, b->get_name());
        });
    const bool close = EditDistance(shown, near->get_name()) <= kMostEdits;
    return fmt::format("longhaul: unknown command '{}'{}; {} --help lists them\n", shown,
                       close ? fmt::format("; did you mean '{}'?", near->get_name()) : "", before);
  }
  return "";
}

// Its exit status, before it is known whether what it printed arrived.
int Parse(CLI::App& app, std::vector<std::string> words, const int* exit_status) {
  if (const std::string unknown = UnknownCommand(app, words); !unknown.empty()) {
    fmt::print(stderr, "{}", unknown);
    return 2;
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::system_error&) {
    // fmt throws where a stream takes no more. On stdout this is told below; anything else is not
    // ours to explain.
    if (FlushStandardOutput().ok()) throw;
    return 1;
  }
  return *exit_status;
}

}  // namespace

int RunCommandLine(CLI::App& app, int argc, char** argv, std::vector<std::string>* program,
                   const int* exit_status) {
  HoldStandardStreams();
  std::vector<std::string> words(argv + 1, argv + argc);
  if (const size_t own = WordsBeforeProgram(words); own > 0) {
    const bool dashes = words.size() > own && words[own] == "--";
    program->assign(words.begin() + static_cast<std::ptrdiff_t>(own + dashes), words.end());
    words.resize(own);
  }
  app.name(argv[0]);
  const int status = Parse(app, std::move(words), exit_status);
  const absl::Status written = FlushStandardOutput();
  if (written.ok()) return status;
  const int failed = Fail(written);
  return status == 0 ? failed : status;
}

}  // namespace longhaul
