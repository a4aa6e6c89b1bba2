#pragma once

#include <cstdint>

#include "pp_group/data/corpus.h"

namespace longhaul {

// What a model reaches on the evaluated tokens that knows how often each id occurs there and nothing
// of what stands before it: their unigram entropy, nat per token. Of the first `rows` held-out
// windows, the tokens that are predicted: `context` successors of each. 0 < rows <=
// held_out_rows(context).
double UnigramEntropy(const Corpus& corpus, int64_t rows, int64_t context);

}  // namespace longhaul
