#pragma once

#include <string>

namespace longhaul {

struct ShellResult {
  int status;        // exit status; 128 + signal
  std::string text;  // stdout and stderr
};

// Runs one line of shell and waits for it.
ShellResult RunShell(const std::string& line);

}  // namespace longhaul
