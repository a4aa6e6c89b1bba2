#include "experiments/train/spec_corpus.h"

#include <cmath>
#include <map>
#include <vector>

namespace longhaul {

std::string CorpusSource(const std::string& value) {
  return value == "headers" ? std::string("headers:") + LONGHAUL_TORCH_INCLUDE : value;
}

absl::StatusOr<std::shared_ptr<const Corpus>> OpenCorpus(const RunSpec& spec) {
  return Corpus::Open(CorpusSource(spec.data.source), spec.model.vocab, spec.data.eval);
}

double UnigramEntropy(const Corpus& corpus, int64_t rows, int64_t context) {
  std::map<int64_t, int64_t> count;  // by id: sums in one order, so one value on every host
  std::vector<int64_t> row(static_cast<size_t>(context) + 1);
  for (int64_t i = 0; i < rows; ++i) {
    corpus.HeldOutRow(i, context, row);
    for (size_t t = 1; t < row.size(); ++t) ++count[row[t]];
  }
  const auto all = static_cast<double>(rows * context);
  double nat = 0;
  for (const auto& [id, n] : count) {
    const double share = static_cast<double>(n) / all;
    nat -= share * std::log(share);
  }
  return nat;
}

}  // namespace longhaul
