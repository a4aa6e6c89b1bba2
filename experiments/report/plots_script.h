#pragma once

#include <vector>

namespace longhaul {

// Embedded at build time: the files of experiments/report/plots and of the Python package's
// importing, and its export.py.
struct EmbeddedFile {
  const char *name, *text;
};
extern const std::vector<EmbeddedFile> kPlotsFiles;
extern const std::vector<EmbeddedFile> kImportFiles;
extern const char* const kExportScript;

}  // namespace longhaul
