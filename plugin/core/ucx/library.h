#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "absl/status/status.h"

namespace longhaul {

// Every function of UCX that is called anywhere.
#define LONGHAUL_UCX_FUNCTIONS(X)   \
  X(ucp_am_data_release)            \
  X(ucp_am_send_nbx)                \
  X(ucp_cleanup)                    \
  X(ucp_config_modify)              \
  X(ucp_config_read)                \
  X(ucp_config_release)             \
  X(ucp_context_print_info)         \
  X(ucp_ep_close_nbx)               \
  X(ucp_ep_create)                  \
  X(ucp_ep_flush_nbx)               \
  X(ucp_ep_print_info)              \
  X(ucp_get_version_string)         \
  X(ucp_init_version)               \
  X(ucp_request_free)               \
  X(ucp_worker_arm)                 \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_progress)            \
  X(ucp_worker_query)               \
  X(ucp_worker_release_address)     \
  X(ucp_worker_set_am_recv_handler) \
  X(ucs_log_push_handler)           \
  X(ucs_status_string)

struct UcxLibrary {
#define LONGHAUL_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  LONGHAUL_UCX_FUNCTIONS(LONGHAUL_UCX_MEMBER)
#undef LONGHAUL_UCX_MEMBER
};

// Loads libucp at run time, once per process. Not linked, because merely loading it patches libc's
// mmap family and installs handlers of crash signals and of SIGHUP, unless the environment says
// otherwise at that very moment; so this sets it for the moment of loading, whatever it was: no
// signal's handler, no signal stack and no mask changes. Programs that use only loopback
// never load it. FailedPrecondition: no libucp, or one without a function that is needed.
absl::Status LoadUcx();

// After LoadUcx() has succeeded.
const UcxLibrary& Ucx();

}  // namespace longhaul
