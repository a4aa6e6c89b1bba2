#include "tests/netem/shell_command.h"

#include <sys/wait.h>

#include <cstdio>

namespace longhaul {

ShellResult RunShell(const std::string& line) {
  FILE* pipe = popen(("{ " + line + "\n} 2>&1").c_str(), "r");
  ShellResult result{-1, ""};
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    result.text.append(buffer, n);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace longhaul
