#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace longhaul::plan {

// Files that plans are made from, whose figures one can count with.

inline constexpr char kCalibration[] = R"({"schema": "longhaul.calibration/1", "plan_sha256": "x",
 "commit": "y", "params": 1000000,
 "activation": [
  {"codec": "int8-b64 / int8-b64", "direction": "both", "eval": "off", "q": 0.95,
   "q_ci": [0.94, 0.96],
   "by_S": [{"S": 2, "ln_eta": -0.1, "ci": [-0.2, -0.05]},
            {"S": 4, "ln_eta": -0.4, "ci": [-0.5, -0.3]}]},
  {"codec": "int4-b64-h64 / none", "direction": "forward", "eval": "off", "q": 0.81,
   "q_ci": [0.8, 0.82], "by_S": []}],
 "eta_diloco": [
  {"M": 2, "H": 10, "eta": 0.9, "ci": [0.8, 0.95], "codec": "none", "boundary": "",
   "batch": "global-batch-matched"},
  {"M": 2, "H": 1000, "eta": 0.6, "ci": [0.5, 0.7], "codec": "none", "boundary": "",
   "batch": "global-batch-matched"}],
 "eta_outer": [
  {"arm": "s", "algorithm": "streaming", "codec": "e3m0-b64", "M": 4, "H": 12, "eta": 0.7,
   "ci": [0.6, 0.8]},
  {"arm": "s2", "algorithm": "streaming", "codec": "e3m0-b64", "M": 2, "H": 30, "eta": 0.6,
   "ci": [0.5, 0.65]},
  {"arm": "w", "algorithm": "swarm", "codec": "dyn8-b4096", "M": 2, "H": 1, "eta": 0.95,
   "ci": [0.9, 1.1]}],
 "eta_c": [{"codec": "int4-b64-h64+ef", "ratio": 3.7, "eta": 1.0, "ci": [0.98, 1.02]}]})";

// 3.2 nat with 50,000 tokens and 3.0 with 100,000, of seeds that are 0.04 nat apart.
inline constexpr char kLosses[] =
    R"(arm,role,codecs,stages,crossings,seed,budget,train_tokens,loss_off_nat,loss_on_nat
reference@0.5,reference,none / none,1,0,1,0.5,50000,3.18,
reference@0.5,reference,none / none,1,0,2,0.5,50000,3.22,
reference@1,reference,none / none,1,0,1,1,100000,2.98,
reference@1,reference,none / none,1,0,2,1,100000,3.02,
act,arm,int8-b64 / int8-b64,2,2,1,1,100000,9,
)";

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
