#include "experiments/train/safetensors.h"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

absl::Status WriteSafetensors(const std::string& path, std::span<const SafeTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    const uint64_t end = at + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that values are aligned
  const uint64_t length = text.size();
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << text;
  for (const SafeTensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               static_cast<std::streamsize>(tensor.values.size_bytes()));
  }
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("write ", part, ": ", strerror(errno)));
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rename ", part, ": ", error.message()));
}

}  // namespace longhaul
