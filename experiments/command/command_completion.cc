// `completion`: what a shell completes, from the commands themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/command/command.h"

namespace longhaul {
namespace {

// "net up": its subcommands and long options, for every command there is.
void Collect(const CLI::App& app, const std::string& path, std::string& cases) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(sub->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  cases += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(words, " "));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), cases);
  }
}

// A lab's name, or LAB/NODE behind exec and shell, comes from the labs that are up. zsh reads the
// same through bashcompinit.
constexpr const char* kScript = R"sh(_longhaul_words() {{
  case "$1" in
{}  esac
}}
_longhaul() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" words="" i word
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${{COMP_WORDS[i]}}"
    if [ "$word" = -- ]; then
      COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current"))
      return
    fi
    words=""
    _longhaul_words "${{path:+$path }}$word"
    if [ -n "$words" ]; then path="${{path:+$path }}$word"; fi
  done
  words=""
  _longhaul_words "$path"
  local labs nodes lab
  case "$path" in
    "net exec" | "net shell")
      labs=$("${{COMP_WORDS[0]}}" net list --json 2>/dev/null | sed -n 's/^    "name": "\(.*\)",*$/\1/p')
      for lab in $labs; do
        nodes=$("${{COMP_WORDS[0]}}" net list "$lab" --nodes 2>/dev/null)
        for word in $nodes; do words="$words $lab/$word"; done
      done ;;
    "net "*)
      words="$words $("${{COMP_WORDS[0]}}" net list --json 2>/dev/null | sed -n 's/^    "name": "\(.*\)",*$/\1/p')" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in
    -*) ;;
    *) COMPREPLY+=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _longhaul longhaul
)sh";

}  // namespace

void AddCompletionCommand(CLI::App& app, int* exit_status) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print completions for bash or zsh");
  command->group("Setup");
  command->footer(
      "Example, for the start file of the shell:\n  eval \"$(longhaul completion bash)\"");
  command->add_option("shell", *shell, "Shell: bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([&app, shell, exit_status] {
    std::string cases;
    Collect(app, "", cases);
    if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
    fmt::print(fmt::runtime(kScript), cases);
    *exit_status = 0;
  });
}

}  // namespace longhaul
