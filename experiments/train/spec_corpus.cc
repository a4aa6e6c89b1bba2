#include "experiments/train/spec_corpus.h"

namespace longhaul {

absl::StatusOr<std::shared_ptr<const Corpus>> OpenCorpus(const RunSpec& spec) {
  const std::string source = spec.data.source == "headers"
                                 ? std::string("headers:") + LONGHAUL_TORCH_INCLUDE
                                 : spec.data.source;
  return Corpus::Open(source, spec.model.vocab, spec.data.eval);
}

}  // namespace longhaul
