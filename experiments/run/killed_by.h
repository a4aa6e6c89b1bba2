#pragma once

#include <string>

namespace longhaul {

// "killed by signal 15 (Terminated)", and for 9 who may have sent it.
std::string KilledBy(int signal);

}  // namespace longhaul
