#include "experiments/price/price_input.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "experiments/run/machine_limits.h"
#include "experiments/spec/known_names.h"
#include "experiments/train/spec_corpus.h"
#include "netem/topology/toml_tree.h"
#include "pp_group/data/corpus_format.h"
#include "pp_group/device_check.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {
namespace {

template <typename... Args>
absl::Status Bad(fmt::format_string<Args...> text, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(text, std::forward<Args>(args)...));
}

absl::StatusOr<std::string> ModelFileOf(const PriceOptions& options, const std::string& weights) {
  if (!options.model.empty()) return options.model;
  const std::string beside = (std::filesystem::path(weights).parent_path() / "model.toml").string();
  std::error_code error;
  if (!std::filesystem::exists(weights, error)) {
    return absl::NotFoundError(fmt::format("weights {}: no such file or folder", weights));
  }
  if (std::filesystem::exists(beside, error)) return beside;
  return absl::NotFoundError(fmt::format(
      "weights {}: no model.toml beside it; name a file that has the table [model] with "
      "--model",
      weights));
}

// A token file says its width in its header; without one it is uint16, as `tokens:` has it.
std::string SourceOf(const std::string& tokens) {
  for (const char* word : {"tokens:", "tokens32:", "text:"}) {
    if (tokens.starts_with(word)) return tokens;
  }
  TokenFormat format{};
  std::ifstream file(tokens, std::ios::binary);
  file.read(reinterpret_cast<char*>(&format), sizeof format);
  const bool wide = format.magic == kUint32Format.magic && format.version == kUint32Format.version;
  return (wide ? "tokens32:" : "tokens:") + tokens;
}

absl::StatusOr<std::vector<std::vector<int64_t>>> CutsOf(const PriceOptions& options,
                                                         int64_t blocks) {
  std::vector<std::vector<int64_t>> all;
  const auto add = [&](std::vector<int64_t> cuts) {
    if (std::find(all.begin(), all.end(), cuts) == all.end()) all.push_back(std::move(cuts));
  };
  for (const int64_t stages : options.stages) {
    if (stages < 2 || stages > blocks) {
      return Bad("--stages {}: want 2 to {}, the blocks that the model has", stages, blocks);
    }
    add(EqualCuts(blocks, stages));
  }
  for (const std::string& text : options.cuts) {
    ASSIGN_OR_RETURN(std::vector<int64_t> cuts, ParseCuts(text, blocks));
    add(std::move(cuts));
  }
  for (const int64_t stages : {2, 4, 8}) {
    const bool given = !options.stages.empty() || !options.cuts.empty();
    if (!given && stages <= blocks) add(EqualCuts(blocks, stages));
  }
  return all;
}

absl::Status CheckNumbers(const PriceOptions& o) {
  if (o.codecs.empty()) return Bad("no --codec: `longhaul codecs` lists them");
  if (o.rows && *o.rows < kLeastPriceRows) {
    return Bad("--rows {}: an interval wants {} or more", *o.rows, kLeastPriceRows);
  }
  if (o.context && *o.context < 1) return Bad("--context {}: want 1 or more tokens", *o.context);
  if (o.budget_nat && !(*o.budget_nat > 0 && std::isfinite(*o.budget_nat))) {
    return Bad("--budget {}: want a number of nat above 0", *o.budget_nat);
  }
  for (const double allowed : o.allowed_nat) {
    if (!(allowed > 0 && std::isfinite(allowed))) {
      return Bad("--allow {}: want numbers of nat above 0", allowed);
    }
  }
  if (o.move && !o.budget_nat) return Bad("--move is of a choice of cuts: give --budget too");
  if (o.move && *o.move < 0) return Bad("--move {}: want 0 or more blocks", *o.move);
  const int64_t gradient_rows = o.gradient_rows.value_or(kPriceGradientRows);
  if (gradient_rows != 0 && gradient_rows < kLeastPriceRows) {
    return Bad("--gradient-rows {}: want 0 (none), or {} or more for an interval", gradient_rows,
               kLeastPriceRows);
  }
  return absl::OkStatus();
}

// Rows that were asked for, or as many as are sensible and there.
absl::StatusOr<int64_t> RowsOf(const PriceOptions& o, const PriceInput& input) {
  const int64_t context = input.request.context;
  const int64_t there = input.text->held_out_rows(context);
  const int64_t shares = o.budget_nat ? 2 : 1;  // as many more verify a choice
  const int64_t rows = o.rows.value_or(
      std::max<int64_t>(kLeastPriceRows, std::min<int64_t>(kPriceRows, there / shares)));
  if (rows * shares <= there) return rows;
  return Bad(
      "{} has {} tokens, {} rows of {}: want {}{}; give a longer text, {}fewer --rows or a "
      "shorter --context",
      input.tokens_source, input.text->held_out_tokens(), there, context, rows * shares,
      o.budget_nat ? fmt::format(" ({} to price on, as many to verify a choice)", rows) : "",
      rows == kLeastPriceRows ? "or no " : "");
}

// Parameters and gradients, of which a tied head has its own, and the exact gradients.
absl::Status CheckMemory(const ModelSpec& model, bool gradients) {
  const int64_t parameters =
      ParameterCount(model) + (model.tied_head ? model.vocab * model.width : 0);
  const int64_t bytes = parameters * static_cast<int64_t>(sizeof(float)) * (gradients ? 3 : 2);
  const Remaining memory = RemainingMemory();
  if (bytes <= memory.amount) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("the model's parameters and gradients take {:.2f} GB, and {} leaves {:.2f} GB",
                  bytes / 1e9, memory.by, memory.amount / 1e9));
}

absl::Status ReadModel(const PriceOptions& o, PriceInput& input) {
  input.weights_path = WeightsIn(o.weights);
  ASSIGN_OR_RETURN(std::string file, ModelFileOf(o, input.weights_path));
  input.model_path = std::move(file);
  ASSIGN_OR_RETURN(RunSpec::Model model, LoadModelTable(input.model_path, CatalogNames()));
  input.spec.model = std::move(model);
  RunSpec::Model& m = input.spec.model;
  m.expert_parallel = 1;
  const bool learned = m.kind == "gpt";
  if (o.context && (*o.context > m.context || (learned && *o.context != m.context))) {
    return Bad("--context {}: {} says model.context = {}; want {}{}", *o.context, input.model_path,
               m.context, learned ? "" : "at most ", m.context);
  }
  if (!learned) m.context = o.context.value_or(std::min(m.context, kPriceContext));
  ASSIGN_OR_RETURN(std::shared_ptr<const ModelWeights> weights,
                   ModelWeights::Open(input.weights_path, input.spec));
  input.weights = std::move(weights);
  return absl::OkStatus();
}

// A spec in place of a bare [model] says what it trains on.
void CountRowsTrainedOn(PriceInput& input) {
  const absl::StatusOr<TomlValue> root = ReadTomlFile(input.model_path);
  const auto* const name = root.ok() ? FindAs<std::string>(*root, "data.source") : nullptr;
  if (name == nullptr) return;
  const auto both = Corpus::Open(CorpusSource(*name), input.spec.model.vocab, input.tokens_source);
  if (!both.ok()) return;
  const int64_t rows = input.request.rows * (input.request.budget_nat ? 2 : 1);
  input.rows_trained_on = (*both)->HeldOutRowsInTraining(rows, input.request.context);
  input.trained_source = *name;
}

}  // namespace

std::string WeightsIn(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  const std::string whole = path + "/model.safetensors";
  const std::string index = whole + ".index.json";
  return !std::filesystem::exists(whole, error) && std::filesystem::exists(index, error) ? index
                                                                                         : whole;
}

absl::StatusOr<PriceCodecs> PriceCodecs::Make(const std::vector<std::string>& names) {
  PriceCodecs codecs;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Codec> codec, MakeCodec(name));
    constexpr Shape kAny = {64, 64};
    if (codec->NewState(kAny) != nullptr || codec->NewDecoderState(kAny) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("codec '", name,
                       "' keeps a state from tensor to tensor, and price sends every row as if "
                       "it came first; want a codec without one"));
    }
    if (std::find(codecs.names_.begin(), codecs.names_.end(), name) != codecs.names_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("codec '", name, "' is given twice"));
    }
    codecs.names_.push_back(name);
    codecs.codecs_.push_back(std::move(codec));
  }
  return codecs;
}

absl::StatusOr<BoundaryCount> PriceCodecs::Cross(size_t codec, uint64_t seed, Shape shape,
                                                 std::span<const float> x, std::span<float> y) {
  const Codec& coder = *codecs_[codec];
  frame_.resize(std::max(frame_.size(), coder.MaxFrameBytes(shape, DType::kF32)));
  const absl::StatusOr<size_t> bytes =
      coder.Encode({x.data(), DType::kF32, shape}, seed, nullptr, frame_);
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("codec ", names_[codec], ": ", std::string(status.message())));
  };
  if (!bytes.ok()) return named(bytes.status());
  const absl::Status decoded =
      coder.Decode(std::span(frame_).first(*bytes), nullptr, {y.data(), DType::kF32, shape});
  if (!decoded.ok()) return named(decoded);
  BoundaryCount count{.bits = 8.0 * static_cast<double>(*bytes),
                      .elements = static_cast<double>(shape.elements()),
                      .tensors = 1};
  for (size_t token = 0; token < shape.rows; ++token) {
    double squared_error = 0, squared_norm = 0;
    for (size_t i = token * shape.cols; i < (token + 1) * shape.cols; ++i) {
      const double value = x[i], error = value - static_cast<double>(y[i]);
      squared_error += error * error;
      squared_norm += value * value;
    }
    count.squared_error += squared_error;
    count.squared_norm += squared_norm;
    if (squared_norm > 0) count.token_error += squared_error / squared_norm;
    ++count.tokens;
  }
  return count;
}

absl::StatusOr<PriceInput> ReadPriceInput(const PriceOptions& o) {
  PriceInput input{};
  RETURN_IF_ERROR(CheckNumbers(o));
  if (auto codecs = PriceCodecs::Make(o.codecs); !codecs.ok()) return codecs.status();
  RETURN_IF_ERROR(ReadModel(o, input));
  const RunSpec::Model& model = input.spec.model;
  if (model.blocks < 2) {
    return Bad("{}: a model of one block has no boundary between stages", input.model_path);
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> cuts, CutsOf(o, model.blocks));
  input.spec.train.device = o.device;
  input.spec.train.dtype = o.dtype;
  RETURN_IF_ERROR(CheckDevice(input.spec.train));
  input.tokens_source = SourceOf(o.tokens);
  // All of it is evaluated, and nothing trained on.
  ASSIGN_OR_RETURN(auto text, Corpus::Open(input.tokens_source, model.vocab, input.tokens_source));
  input.text = std::move(text);
  input.request = {
      .codecs = o.codecs,
      .cuts = std::move(cuts),
      .blocks = model.blocks,
      .rows = 0,
      .context = model.context,
      .allowed_nat = o.allowed_nat.empty() ? std::vector<double>{0.001, 0.01, 0.1} : o.allowed_nat,
      .budget_nat = o.budget_nat,
      .move = o.move.value_or(kPriceMove),
      .seed = o.seed};
  ASSIGN_OR_RETURN(const int64_t rows, RowsOf(o, input));
  input.request.rows = rows;
  input.request.gradient_rows = std::min(rows, o.gradient_rows.value_or(kPriceGradientRows));
  const bool gradients = input.request.gradient_rows > 0;
  RETURN_IF_ERROR(CheckMemory(input.spec.model, gradients));
  CountRowsTrainedOn(input);
  return input;
}

}  // namespace longhaul
