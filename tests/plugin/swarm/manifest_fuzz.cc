// libFuzzer target: a manifest that is taken is safe to act on and has this one text.
#include <cstdlib>
#include <string>

#include "plugin/swarm/manifest.h"
#include "plugin/swarm/swarm_address.h"

namespace {

void CheckManifest(const std::string& text) {
  const auto manifest = longhaul::ParseManifest(text);
  if (!manifest.ok()) return;
  if (longhaul::ManifestText(*manifest) != text) std::abort();
  if (longhaul::TotalBytes(*manifest) <= 0) std::abort();
  for (const longhaul::ManifestFile& file : manifest->files) {
    if (file.path.starts_with('/') || file.path.find("../") != std::string::npos) std::abort();
    if (file.bytes < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  CheckManifest(text);
  if (const auto address = longhaul::ParseSwarmAddress(text); address.ok()) {
    if (longhaul::ParseSwarmAddress(longhaul::ToString(*address)).value() != *address) std::abort();
  }
  if (const auto range = longhaul::ParseMember(text); range.ok() && range->first > range->last) {
    std::abort();
  }
  return 0;
}
