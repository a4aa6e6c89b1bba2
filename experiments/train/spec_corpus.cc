#include "experiments/train/spec_corpus.h"

namespace longhaul {

std::string CorpusSource(const std::string& value) {
  return value == "headers" ? std::string("headers:") + LONGHAUL_TORCH_INCLUDE : value;
}

absl::StatusOr<std::shared_ptr<const Corpus>> OpenCorpus(const RunSpec& spec) {
  return Corpus::Open(CorpusSource(spec.data.source), spec.model.vocab, spec.data.eval);
}

}  // namespace longhaul
