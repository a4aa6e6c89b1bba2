#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"

namespace longhaul {

// One file per subcommand. Each Add registers its options and a callback that sets *exit_status:
// 0 done; 1 failed, one clear line on stderr; 2 usage; 130 interrupted.
void AddDoctorCommand(CLI::App& app, int* exit_status);
void AddRunCommand(CLI::App& app, int* exit_status);
void AddMeasureCommand(CLI::App& app, int* exit_status);
void AddReportCommand(CLI::App& app, int* exit_status);
void AddCompareCommand(CLI::App& app, int* exit_status);
void AddCodecsCommand(CLI::App& app, int* exit_status);
void AddWorkerCommand(CLI::App& app, int* exit_status);

// "longhaul: <message>" on stderr; returns 1 (130 for Cancelled).
int Fail(const absl::Status& status);

}  // namespace longhaul
