#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/isa.h"
#include "compressors/reference_tensors.h"

namespace longhaul {

// One codec as measured here and now.
struct CodecSurvey {
  std::string name;
  uint16_t id = 0;
  double bits_per_element = 0;      // measured bytes of an fp32 tensor, 64-byte header excluded
  double ratio_bf16 = 0;            // 16 / bits_per_element
  std::array<double, 4> nmse = {};  // by Distribution
  double encode_gb_s = 0;           // GB/s of fp32 input, one thread; 0 without a clock
  double decode_gb_s = 0;
};

struct SurveyOptions {
  std::vector<std::string> names;  // empty: the whole catalogue, one of every family, its aliases
  size_t elements = size_t{1} << 20;
  Isa isa = BestIsa();
  // A monotonic clock in seconds, which this folder may not have itself; empty: no speeds.
  std::function<double()> now_s;
  double seconds_per_speed = 0.03;  // measuring time per codec and direction
  uint64_t seed = 1;
};

// Encodes and decodes the four reference distributions with each codec; about 0.1 s per codec at
// the default size. As one row; aqsgd* and +ef21 as 1024 tokens whose difference to zeros is sent.
// NotFound for an unknown name,
// FailedPrecondition for an Isa that the CPU lacks.
absl::StatusOr<std::vector<CodecSurvey>> SurveyCodecs(const SurveyOptions& options);

// Orders by one column: "name", "id", "bits", "error" (Gaussian), "outlier" (error with outliers),
// "encode", "decode"; speeds fastest first, the rest smallest first. InvalidArgument for another.
absl::Status SortSurvey(std::string_view column, std::vector<CodecSurvey>& surveys);

// An array of objects, keys as in CodecSurvey with their units; speeds are null without a clock.
std::string SurveyJson(const std::vector<CodecSurvey>& surveys, Isa isa);

// The text table of `longhaul codecs`: one line per codec under a heading, and the instruction set.
std::string FormatSurvey(const std::vector<CodecSurvey>& surveys, Isa isa);

}  // namespace longhaul
