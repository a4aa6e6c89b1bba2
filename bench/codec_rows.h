#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench/codec_timing.h"
#include "compressors/isa.h"

// What codecs_bench reports: rows and ratios, printed and as JSON for codecs_table.py.
namespace longhaul {

struct Place {
  std::string name;
  size_t elements;  // of a tensor
  size_t threads;
  size_t tensors;  // that take turns
  bool cached;     // each tensor is copied in before it is timed
};

struct Row {
  std::string name;
  Place place;
  double bits;  // per element, of the frame
  double passes;
  Timing encode, decode;
};

// ggml's time / a codec's, medians over the rounds in which both were timed.
struct Ratio {
  std::string name, peer;
  Place place;
  double encode, decode;
};

// How often encoding must see the whole tensor.
double PassesOf(std::string_view name);

void Print(const Row& row);
void Print(const Ratio& ratio);
void WriteJson(const std::string& path, Isa isa, const std::vector<Row>& rows,
               const std::vector<Ratio>& ratios);

}  // namespace longhaul
