// How every command shows its help.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "experiments/command/command.h"

namespace longhaul {
namespace {

constexpr size_t kColumn = 30, kTextWidth = 70;

// Stands for the value of an option in every command that has the option.
constexpr std::pair<std::string_view, std::string_view> kMetavars[] = {
    {"allow", "LIST"},       {"aqm", "KIND"},         {"budget", "NAT"},
    {"calibration", "FILE"}, {"capture", "DIR"},      {"checkpoints", "DIR"},
    {"clock", "KIND"},       {"codec", "CODEC"},      {"congestion-control", "NAME"},
    {"csv", "FILE"},         {"cuts", "BLOCKS"},      {"delay", "TIME"},
    {"device", "DEVICE"},    {"down", "RATE"},        {"dtype", "TYPE"},
    {"ecn", "on|off"},       {"emulator", "KIND"},    {"events", "DIR"},
    {"forward", "PORTS"},    {"from", "DIR"},         {"from-losses", "FILE"},
    {"give-up", "SECONDS"},  {"gpus", "LIST"},        {"grace", "TIME"},
    {"interval", "SECONDS"}, {"into", "DIR"},         {"jitter", "TIME"},
    {"links", "LINKS"},      {"listen", "ADDR:PORT"}, {"loss", "SHARE"},
    {"manifest", "FILE"},    {"member", "ADDR"},      {"memory-mb", "MB"},
    {"message-kb", "KB"},    {"model", "FILE"},       {"out-of-bounds", "ACTION"},
    {"peer", "ADDR:PORT"},   {"probe", "KIND"},       {"queue", "DEPTH"},
    {"rate", "RATE"},        {"rate-trace", "FILE"},  {"records", "DIR"},
    {"report", "FILE"},      {"results", "DIR"},      {"rtt", "TIME"},
    {"run", "ID"},           {"save", "FILE"},        {"seconds", "SECONDS"},
    {"set", "KEY=VALUE"},    {"sha256", "HASH"},      {"sort", "KEY"},
    {"store", "HOST:PORT"},  {"svg", "FILE"},         {"times", "FILE"},
    {"tokens", "FILE"},      {"trace", "FILE"},       {"trace-steps", "A:B"},
    {"up", "RATE"},          {"weights", "PATH"},
};

std::string Metavar(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  for (const std::string& name : option.get_lnames()) {
    for (const auto& [known, metavar] : kMetavars) {
      if (name == known) return std::string(metavar);
    }
  }
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") ? "N"
         : type.starts_with("FLOAT")                         ? "X"
                                                             : "NAME";
}

// `text` in lines of at most kTextWidth, where its words allow it.
std::string Wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string word, line, all;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > kTextWidth) {
      all += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return all + line;
}

// The words of a program may follow its own.
bool TakesProgram(const CLI::App& app) {
  const std::string name = app.get_name();
  return name == "launch" || name == "exec" ||
         (name == "run" && app.get_parent() != nullptr && app.get_parent()->get_name() == "net");
}

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() {
    column_width(kColumn);
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "COMMAND");
  }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n\n";
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (TakesProgram(*app)) usage.insert(usage.size() - 1, " -- CMD...");
    return usage;
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (is_positional) {
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::toupper(c); });
    }
    return name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_name().empty()) return "";  // "": a flag
    return " " + Metavar(*option);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const bool has_value = !option->get_type_name().empty();
    if (has_value && !option->get_default_str().empty() && option->get_option_text().empty()) {
      text += fmt::format(" [default: {}]", option->get_default_str());
    }
    if (option->get_required() && !option->get_positional()) text += " [required]";
    return Wrapped(text);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), Wrapped(command->get_description()),
                             kColumn);
    return out.str();
  }
};

void Use(CLI::App* app, const std::shared_ptr<HelpFormat>& format) {
  app->formatter(format);
  for (CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) {
    Use(command, format);
  }
}

}  // namespace

void UseHelpFormat(CLI::App* app) { Use(app, std::make_shared<HelpFormat>()); }

}  // namespace longhaul
