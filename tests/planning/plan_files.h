#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace longhaul::plan {

// As `net probe --json` writes it, of equal links.
inline std::string Probe(const std::vector<std::string>& nodes, double goodput_mbit,
                         double rtt_ms) {
  std::string paths;
  for (const std::string& a : nodes) {
    for (const std::string& b : nodes) {
      if (a == b) continue;
      paths += fmt::format(
          R"({}{{"from": "{}", "to": "{}", "rate_mbit": 1, "loss": 0, "rtt": {{"median_ms": {}, "received": 20}}, "goodput": {{"mbit": {}}}}})",
          paths.empty() ? "" : ",\n", a, b, rtt_ms, goodput_mbit);
    }
  }
  return "{\"paths\": [" + paths + "]}";
}

// A folder of their own, removed with the object.
class PlanFiles {
 public:
  PlanFiles() {
    char name[] = "/tmp/longhaul-plan-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~PlanFiles() { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

 private:
  std::string folder_;
};

}  // namespace longhaul::plan
