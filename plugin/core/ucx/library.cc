#include "plugin/core/ucx/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plugin/core/node.h"

namespace longhaul {
namespace {

constexpr const char* kFile = "libucp.so.0";

// What must hold while the library's constructors run.
constexpr std::pair<const char*, const char*> kWhileLoading[] = {
    {"UCX_MEM_EVENTS", "n"},    // no patches to libc: TCP registers no memory
    {"UCX_ERROR_SIGNALS", ""},  // no signal handlers
};

absl::Status Load(UcxLibrary& library) {
  std::vector<const char*> ours;
  for (const auto& [name, value] : kWhileLoading) {
    if (std::getenv(name) != nullptr) continue;  // somebody's wish, judged by CheckUcx
    ::setenv(name, value, 1);
    ours.push_back(name);
  }
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (const char* name : ours) ::unsetenv(name);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("load {}: {}; install UCX (Debian: libucx0)", kFile, ::dlerror()));
  }
  std::string missing;
#define LONGHAUL_UCX_LOAD(name)                                                    \
  library.name = reinterpret_cast<decltype(library.name)>(::dlsym(handle, #name)); \
  if (library.name == nullptr) missing += std::string(" ") + #name;
  LONGHAUL_UCX_FUNCTIONS(LONGHAUL_UCX_LOAD)
#undef LONGHAUL_UCX_LOAD
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("{} lacks{}", kFile, missing));
}

UcxLibrary& Library() {
  static UcxLibrary library;
  return library;
}

}  // namespace

absl::Status LoadUcx() {
  static const auto* const status = new absl::Status(Load(Library()));
  return *status;
}

const UcxLibrary& Ucx() { return Library(); }

absl::StatusOr<std::string> UcxVersion() {
  if (absl::Status s = LoadUcx(); !s.ok()) return s;
  return std::string(Ucx().ucp_get_version_string());
}

}  // namespace longhaul
