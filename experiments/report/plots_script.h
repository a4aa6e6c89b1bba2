#pragma once

#include <vector>

namespace longhaul {

// Embedded at build time: the files of experiments/report/plots.
struct EmbeddedFile {
  const char *name, *text;
};
extern const std::vector<EmbeddedFile> kPlotsFiles;

}  // namespace longhaul
