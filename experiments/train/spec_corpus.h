#pragma once

#include <cstdint>
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

// What a model reaches on the evaluated tokens that knows how often each id occurs there and nothing
// of what stands before it: their unigram entropy, nat per token. Of the first `rows` held-out
// windows, the tokens that are predicted: `context` successors of each. 0 < rows <=
// held_out_rows(context).
double UnigramEntropy(const Corpus& corpus, int64_t rows, int64_t context);

}  // namespace longhaul
