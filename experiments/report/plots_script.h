#pragma once

namespace longhaul {

// plugin/python/longhaul/plots.py, embedded at build time.
extern const char* const kPlotsScript;

}  // namespace longhaul
