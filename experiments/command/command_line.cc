#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/status/status.h"
#include "experiments/command/command.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {
namespace {

// Writes out what was printed so far. ResourceExhausted: something that was printed on stdout since
// the start could not be written (disk full, /dev/full, closed).
absl::Status FlushStandardOutput() {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_before && !failed_now) return absl::OkStatus();
  // Of an earlier write only the mark is left, not the reason.
  return absl::ResourceExhaustedError(fmt::format(
      "write to standard output: {}; what was printed is not complete",
      failed_now && errno != 0 ? std::strerror(errno) : "disk full, or its reader has gone"));
}

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

// "; did you mean 'measure'?" where one of `names` is two edits or fewer from what was typed, else "".
std::string Nearest(const std::string& typed, const std::vector<std::string>& names) {
  constexpr size_t kMostEdits = 2;
  const auto near = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return EditDistance(typed, a) < EditDistance(typed, b);
  });
  if (near == names.end() || EditDistance(typed, *near) > kMostEdits) return "";
  return fmt::format("; did you mean '{}'?", *near);
}

constexpr size_t kShownBytes = 64;  // of a word that nobody knows

// The parser says of an unknown command only that one is required. "": the words name commands that
// are there, or begin with an option, or `app` has no commands.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& words) {
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
    if (at->get_require_subcommand_min() == 0) return "";  // such as codecs, which takes names too
    const std::string shown = word.substr(0, kShownBytes);
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    return fmt::format("longhaul: unknown command '{}'{}; {} --help lists them\n", shown,
                       Nearest(shown, names), before);
  }
  return "";
}

// The whole of `text` is a number of the type that --help names: INT, UINT or FLOAT. The parser itself
// takes the nearest that there is for one that is too large, -1 as the largest UINT, and nan.
bool IsNumber(const std::string& type, const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const char* const begin = text.c_str();
  bool fits = true;
  if (type == "FLOAT") {
    fits = !std::isnan(std::strtod(begin, &end));
  } else if (type == "UINT") {
    std::strtoull(begin, &end, 0);
    fits = errno == 0 && text.find('-') == std::string::npos;
  } else {
    std::strtoll(begin, &end, 0);
    fits = errno == 0;
  }
  return fits && !text.empty() && end == begin + text.size();
}

// Gives every option of a number, of `app` and its commands, a check of what is typed.
void CheckNumbers(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string named = option->get_type_name();
    const std::string type = named.substr(0, named.find(':'));
    if (type != "INT" && type != "UINT" && type != "FLOAT") continue;
    option->check([type](const std::string& text) -> std::string {
      if (IsNumber(type, text)) return "";
      const char* const want = type == "FLOAT"  ? "a number"
                               : type == "UINT" ? "a whole number from 0"
                                                : "a whole number";
      return fmt::format("'{}' is not {}, or is too large", text, want);
    });
  }
  for (CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) {
    CheckNumbers(command);
  }
}

// The command that was being read, as it is typed, and what the parser knows of it.
std::pair<std::string, const CLI::App*> CommandOf(const CLI::App& app) {
  std::string words = "longhaul";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    words += " " + at->get_name();
  }
  return {words, at};
}

// The first word that was not expected: an option as its name alone, with the nearest of `command`. The
// parser's own text has them from the last to the first.
std::string NotExpected(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  if (left.empty()) return "an argument was not expected";
  const std::string first = left.front().substr(0, kShownBytes);
  if (!first.starts_with("-")) return fmt::format("not expected: '{}'", first);
  const std::string name = first.substr(0, first.find('='));
  std::vector<std::string> options;  // a mistyped one begins as it should
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      if (name.starts_with("--" + known.substr(0, 1))) options.push_back("--" + known);
    }
  }
  return fmt::format("unknown option '{}'{}", name, Nearest(name, options));
}

// What the parser says, in one line as every other error.
int Refuse(const std::string& said, const std::string& command) {
  std::string what = said;
  std::replace(what.begin(), what.end(), '\n', ' ');
  fmt::print(stderr, "longhaul: {}; {} --help says what there is\n", what, command);
  return 2;
}

// Its exit status, before it is known whether what it printed arrived.
int Parse(CLI::App& app, std::vector<std::string> words, const int* exit_status) {
  if (const std::string unknown = UnknownCommand(app, words); !unknown.empty()) {
    fmt::print(stderr, "{}", unknown);
    return 2;
  }
  CheckNumbers(&app);
  // A test parses every command that the documentation has (docs_commands_test.py) and runs none: this
  // comes after a command line is known to be right and before any command's own callback.
  if (std::getenv("LONGHAUL_PARSE_ONLY") != nullptr) {
    app.parse_complete_callback([] { throw CLI::Success(); });
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    const auto [typed, command] = CommandOf(app);
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr;
    return Refuse(extra ? NotExpected(app, *command) : e.what(), typed);
  } catch (const std::system_error&) {
    // fmt throws where a stream takes no more. On stdout this is told below; anything else is not
    // ours to explain.
    if (FlushStandardOutput().ok()) throw;
    return 1;
  }
  return *exit_status;
}

}  // namespace

void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one: those below it are open.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

int RunCommandLine(CLI::App& app, int argc, char** argv, std::vector<std::string>* program,
                   const int* exit_status) {
  HoldStandardStreams();
  std::vector<std::string> words(argv + 1, argv + argc);
  if (const size_t own = WordsBeforeProgram(words); own > 0) {
    const bool dashes = words.size() > own && words[own] == "--";
    program->assign(words.begin() + static_cast<std::ptrdiff_t>(own + dashes), words.end());
    words.resize(own);
  }
  app.name("longhaul");
  UseHelpFormat(&app);
  const int status = Parse(app, std::move(words), exit_status);
  const absl::Status written = FlushStandardOutput();
  if (written.ok()) return status;
  const int failed = Fail(written);
  return status == 0 ? failed : status;
}

int Fail(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message(status.message());
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  return absl::IsCancelled(status) ? kExitCancelled : 1;
}

}  // namespace longhaul
