#include "plugin/core/ucx/context.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/ucx/interfaces.h"
#include "plugin/core/ucx/library.h"

namespace longhaul {
namespace {

std::mutex last_error_mu;
std::string& LastError() {
  static auto* const text = new std::string;  // UCX may log while the process exits
  return *text;
}

bool AskedForLog() {
  for (const char* name : {"UCX_LOG_LEVEL", "UCX_LOG_LEVEL_TRIGGER", "UCX_LOG_FILE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// UCX logs to stdout, which belongs to the program: only who asks for its log gets it, from UCX's own
// handler, which comes next. Errors are kept for the next Status in any case.
ucs_log_func_rc_t KeepError(const char*, unsigned, const char*, ucs_log_level_t level,
                            const ucs_log_component_config_t*, const char* format,
                            va_list arguments) {
  static const bool asked_for = AskedForLog();
  const ucs_log_func_rc_t next = asked_for ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
  if (level > UCS_LOG_LEVEL_ERROR) return next;
  char text[512];
  va_list again;  // the next handler reads them too
  va_copy(again, arguments);
  std::vsnprintf(text, sizeof(text), format, again);
  va_end(again);
  const std::lock_guard lock(last_error_mu);
  LastError() = text;
  return next;
}

void KeepErrorsFromNowOn() {
  static std::once_flag once;
  std::call_once(once, [] { Ucx().ucs_log_push_handler(&KeepError); });
}

// What `print` writes.
template <typename Print>
std::string Printed(Print print) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return "";
  print(stream);
  std::fclose(stream);
  const std::string printed(text, size);
  std::free(text);
  return printed;
}

// UCX goes on without a transport that it cannot open, and says nothing.
bool HasTcp(ucp_context_h context, const std::string& interface) {
  const std::string resources =
      Printed([&](std::FILE* stream) { Ucx().ucp_context_print_info(context, stream); });
  return resources.find(fmt::format("tcp/{}\n", interface)) != std::string::npos;
}

}  // namespace

absl::Status UcxError(std::string_view what, ucs_status_t status) {
  const std::lock_guard lock(last_error_mu);
  std::string text = fmt::format("ucx: {}: {}", what, Ucx().ucs_status_string(status));
  if (!LastError().empty()) text += fmt::format(" ({})", std::exchange(LastError(), {}));
  return absl::UnavailableError(text);
}

absl::Status CheckUcx(const NodeOptions& options) {
  // First: while another thread loads it, variables of ours are set.
  RETURN_IF_ERROR(LoadUcx());
  if (options.ucx_environment == NodeOptions::UcxEnvironment::kRefused) {
    if (const std::vector<std::string> names = UcxVariables(); !names.empty()) {
      return absl::FailedPreconditionError(
          fmt::format("ucx: {} in the environment could undo what the transport relies on: unset "
                      "it, or accept it by longhaul.Options(ucx_environment=True) (in C++ "
                      "NodeOptions::ucx_environment)",
                      fmt::join(names, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ucp_context_h> OpenUcxContext(const NodeOptions& options,
                                             const std::string& interface) {
  RETURN_IF_ERROR(CheckUcx(options));
  KeepErrorsFromNowOn();
  ucp_config_t* config = nullptr;
  if (ucs_status_t s = Ucx().ucp_config_read(nullptr, nullptr, &config); s != UCS_OK) {
    return UcxError("read configuration", s);
  }
  const bool tcp_only = options.shared_memory == NodeOptions::SharedMemory::kForbidden;
  const std::pair<const char*, std::string> settings[] = {
      {"TLS", tcp_only ? "tcp,self" : "all"},
      {"NET_DEVICES", interface},
      {"RNDV_THRESH", "inf"},
      // Never from our memory directly: when a peer dies in the middle of such a send, 1.13.1
      // completes it twice and ends the process by an assertion. Longer segments make up for the
      // copy: a packet (kPacketPayloadBytes and headers) goes into one, so that the receiver gets it
      // as it was read. Of four segments of 64 KiB UCX would put it together by one more copy.
      {"ZCOPY_THRESH", "inf"},
      {"TX_SEG_SIZE", "260k"},
      {"RX_SEG_SIZE", "260k"},
      // peer_deadline alone says when a peer is dead. TCP's own probes would end an idle connection
      // some 12 s into an outage.
      {"KEEPIDLE", "inf"},
      {"KEEPCNT", "inf"},
      {"KEEPINTVL", "inf"},
      {"KEEPALIVE_INTERVAL", "inf"},
      {"MAX_EAGER_RAILS", "1"},
      {"MAX_RNDV_RAILS", "1"},
      {"WARN_INVALID_CONFIG", "n"},
  };
  for (const auto& [name, value] : settings) {
    if (ucs_status_t s = Ucx().ucp_config_modify(config, name, value.c_str()); s != UCS_OK) {
      Ucx().ucp_config_release(config);
      return UcxError(fmt::format("set {}={}", name, value), s);
    }
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 0;
  ucp_context_h context = nullptr;
  const ucs_status_t opened =
      Ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  Ucx().ucp_config_release(config);
  if (opened != UCS_OK) return UcxError(fmt::format("open tcp on {}", interface), opened);
  if (tcp_only && !HasTcp(context, interface)) {
    Ucx().ucp_cleanup(context);
    return absl::FailedPreconditionError(
        fmt::format("ucx: no TCP over {}: has it an address?", interface));
  }
  return context;
}

absl::StatusOr<std::string> CheckLanes(ucp_ep_h endpoint, const NodeOptions& options,
                                       const std::string& interface) {
  std::istringstream lines(
      Printed([&](std::FILE* stream) { Ucx().ucp_ep_print_info(endpoint, stream); }));
  // "#               lane[0]:  0:tcp/net0.0 md[0]      -> md[0]/tcp/sysdev[255]/ ..."
  std::set<std::string> lanes;
  for (std::string line; std::getline(lines, line);) {
    const size_t lane = line.find("lane[");
    if (lane == std::string::npos) continue;
    std::istringstream words(line.substr(lane));
    std::string label, where;
    words >> label >> where;
    where = where.substr(where.find(':') + 1);
    lanes.insert(where.substr(0, where.rfind('.')));
  }
  const bool as_wanted = lanes.size() == 1 && lanes.contains("tcp/" + interface);
  const std::string found = fmt::format("{}", fmt::join(lanes, "+"));
  if (!as_wanted && options.shared_memory == NodeOptions::SharedMemory::kForbidden) {
    return absl::FailedPreconditionError(
        fmt::format("ucx: connected over {}, not tcp/{}", found, interface));
  }
  return found;
}

}  // namespace longhaul
