#include "netem/gateway/relay.h"

namespace longhaul {

absl::Status CheckRelay() {
  return absl::FailedPreconditionError(
      "--gateway needs libslirp, which this longhaul was built without: install libslirp-dev and "
      "build it again");
}

int RunRelay(const GatewaySpec& /*spec*/, const Topology& /*topology*/, Fd /*lab*/) { return 1; }

}  // namespace longhaul
