#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/plugin/group_fixture.h"

namespace longhaul {

// Every transport there is: a suite over these is a contract.
inline std::vector<TransportKind> AllTransports() {
  return {TransportKind::kLoopback, TransportKind::kUcx};
}

inline std::string TransportName(const testing::TestParamInfo<TransportKind>& info) {
  return info.param == TransportKind::kLoopback ? "Loopback" : "Ucx";
}

}  // namespace longhaul
