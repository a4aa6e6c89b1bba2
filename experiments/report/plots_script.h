#pragma once

#include <vector>

namespace longhaul {

// Embedded at build time: the files of experiments/report/plots, and export.py.
struct EmbeddedFile {
  const char *name, *text;
};
extern const std::vector<EmbeddedFile> kPlotsFiles;
extern const char* const kExportScript;

}  // namespace longhaul
