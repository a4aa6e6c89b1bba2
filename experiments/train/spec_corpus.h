#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "pp_group/data/corpus.h"

namespace longhaul {

// What Corpus::Open takes for a value of data.source or data.eval.
std::string CorpusSource(const std::string& value);

// The corpus of the spec; "headers" is the text of the LibTorch headers this binary was built with.
absl::StatusOr<std::shared_ptr<const Corpus>> OpenCorpus(const RunSpec& spec);

}  // namespace longhaul
