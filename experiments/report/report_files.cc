#include "experiments/report/report_files.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

namespace longhaul {

absl::Status WriteReportFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("write {}: disk full, or the folder is not writable", path));
}

absl::Status MakeReportFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("make folder {}: {}", path, error.message()));
}

std::string ReadSvg(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string svg = text.str();
  const size_t start = svg.find("<svg");
  return start == std::string::npos ? "" : svg.substr(start);
}

}  // namespace longhaul
