#pragma once

namespace longhaul {

// plugin/python/longhaul/plots.py and export.py, embedded at build time.
extern const char* const kPlotsScript;
extern const char* const kExportScript;

}  // namespace longhaul
