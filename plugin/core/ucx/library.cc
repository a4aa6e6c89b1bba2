#include "plugin/core/ucx/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/node.h"

namespace longhaul {
namespace {

constexpr const char* kFile = "libucp.so.0";

// What the library's constructors must find, whatever the environment says: the process's memory
// and its signals stay the program's.
constexpr std::pair<const char*, const char*> kWhileLoading[] = {
    {"UCX_MEM_EVENTS", "n"},        // no patches to libc: TCP registers no memory
    {"UCX_HANDLE_ERRORS", "none"},  // no handlers of SIGSEGV and the like
    {"UCX_ERROR_SIGNALS", ""},
    {"UCX_DEBUG_SIGNO", "0"},       // none of SIGHUP, which UCX takes to stop and wait for gdb
    {"UCX_STATS_TRIGGER", "exit"},  // in builds with statistics: no signal that prints them
};

absl::Status Load(UcxLibrary& library) {
  std::vector<std::optional<std::string>> before;
  for (const auto& [name, value] : kWhileLoading) {
    const char* const set = std::getenv(name);
    before.push_back(set == nullptr ? std::nullopt : std::optional<std::string>(set));
    ::setenv(name, value, 1);
  }
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (size_t i = 0; i < before.size(); ++i) {
    const char* const name = kWhileLoading[i].first;
    before[i] ? ::setenv(name, before[i]->c_str(), 1) : ::unsetenv(name);
  }
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
  RETURN_IF_ERROR(LoadUcx());
  return std::string(Ucx().ucp_get_version_string());
}

}  // namespace longhaul
