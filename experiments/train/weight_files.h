#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "experiments/train/safetensors.h"
#include "pp_group/data/mapped_file.h"

namespace longhaul {

// Tensors of one safetensors file, or of all those that an index names.
struct WeightFiles {
  std::map<std::string, SafeEntry> entries;
  std::vector<std::shared_ptr<const MappedFile>> mapped;  // what the entries lie in
  std::string hash;  // SHA-256 of the file, hex; of several: of their hashes in the order of names
};

// `path`: a safetensors file, or an index of them as `transformers` writes it ("...index.json"):
// its files lie beside it. InvalidArgument in one line: what ParseSafetensors refuses; an index
// without a "weight_map" of names to names of files in its own folder; a tensor that is not in the
// file that the index names, or is in another one too. NotFound.
absl::StatusOr<WeightFiles> OpenWeightFiles(const std::string& path);

// The files that OpenWeightFiles maps of `path`, without reading their tensors: an index first, then
// its files in the order of their names. NotFound, InvalidArgument: of an index.
absl::StatusOr<std::vector<std::string>> WeightPaths(const std::string& path);

// FOLDER/model.safetensors.index.json over files in the same folder. `total_bytes`: of all values.
absl::Status WriteWeightIndex(const std::string& folder,
                              const std::map<std::string, std::string>& file_of_tensor,
                              int64_t total_bytes);
// "model-00001-of-00004.safetensors"; `index` from 0. "model.safetensors" where there is one.
std::string WeightFileName(int index, int files);

// Writes the weights of group 0 at the newest step that all its stages have in `checkpoints` (where
// groups have just met, those of every group) as WriteModelWeights does. `spec` is the run's.
// `folder` is new or empty, and a failure leaves
// nothing there. AlreadyExists: it holds something; NotFound: no such step; DataLoss: a file is corrupt; InvalidArgument: checkpoints of another
// model.
absl::Status ExportWeights(const std::string& checkpoints, const RunSpec& spec,
                           const std::string& folder);

}  // namespace longhaul
