#include "experiments/train/whole_tensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "compressors/catalog.h"
#include "compressors/families/low_rank.h"
#include "compressors/frame/frame.h"
#include "experiments/train/traffic.h"

namespace longhaul {
namespace {

// Of one codec in one direction: the tensors that cross, by stage and fragment.
struct Tensors {
  std::set<std::tuple<uint64_t, uint64_t>> shapes, whole;  // rows, columns
};

// A codec that makes large tensors smaller and not this one. (A cast of what has 16 bits already and
// the noise of gauss- save nothing of any tensor, as they should.)
bool SendsWhole(const Codec& codec, Shape shape, DType dtype) {
  constexpr Shape kLarge{4096, 4096};
  const auto saves = [&](Shape s) {
    const size_t each = dtype == DType::kBF16 ? sizeof(uint16_t) : sizeof(float);
    return codec.MaxFrameBytes(s, dtype) < kFrameHeaderBytes + s.elements() * each;
  };
  return saves(kLarge) && !saves(shape);
}

std::map<std::pair<Direction, std::string>, Tensors> TensorsOf(const RunSpec& spec) {
  std::map<std::pair<Direction, std::string>, Tensors> found;
  const auto crossings = PlanCrossings(spec);
  if (!crossings.ok()) return found;  // the trainer's check says why
  for (const PlannedCrossing& c : *crossings) {
    if (c.codec == "none") continue;
    const auto codec = MakeCodec(c.codec);
    if (!codec.ok()) continue;
    std::vector<Shape> shapes = {c.shape};
    if (c.direction == Direction::kOuter) {
      shapes.clear();
      for (const uint64_t elements : c.parts) shapes.push_back({1, elements});
    }
    Tensors& tensors = found[{c.direction, c.codec}];
    for (const Shape& shape : shapes) {
      const std::tuple<uint64_t, uint64_t> key{shape.rows, shape.cols};
      if (!tensors.shapes.insert(key).second) continue;
      if (SendsWhole(**codec, shape, c.dtype)) tensors.whole.insert(key);
    }
  }
  return found;
}

std::string KeyOf(const RunSpec& spec, Direction direction, const std::string& codec) {
  if (direction == Direction::kForward) return "boundary.forward";
  if (direction == Direction::kBackward) return "boundary.backward";
  return codec == spec.outer.global_codec ? "outer.global_codec" : "outer.codec";
}

// "of 12928 elements, a matrix of 114 x 114, for which the largest rank is 28"
std::string Largest(const std::string& codec,
                    const std::set<std::tuple<uint64_t, uint64_t>>& shapes) {
  const auto [rows, cols] =
      *std::max_element(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) {
        return std::get<0>(a) * std::get<1>(a) < std::get<0>(b) * std::get<1>(b);
      });
  std::string text = fmt::format("of {} elements", rows * cols);
  if (!codec.starts_with("powersgd-r")) return text;
  const LowRankView view({rows, cols});
  return text + fmt::format(", a matrix of {} x {} whose factors are smaller up to rank {}",
                            view.rows, view.cols, LowRankFor(view, kMaxLowRank));
}

}  // namespace

absl::Status CheckCodecsFit(const RunSpec& spec) {
  for (const auto& [place, tensors] : TensorsOf(spec)) {
    const auto& [direction, codec] = place;
    if (tensors.whole.size() < tensors.shapes.size()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "'{}' = \"{}\" would send every tensor whole, the largest {}; want another codec or "
        "\"none\"",
        KeyOf(spec, direction, codec), codec, Largest(codec, tensors.whole)));
  }
  return absl::OkStatus();
}

std::vector<std::string> WholeTensorAdvice(const RunSpec& spec) {
  std::vector<std::string> lines;
  for (const auto& [place, tensors] : TensorsOf(spec)) {
    const auto& [direction, codec] = place;
    if (tensors.whole.empty()) continue;
    lines.push_back(
        fmt::format("note: '{}' = \"{}\" sends tensors of {} of {} sizes whole, the "
                    "largest {}",
                    KeyOf(spec, direction, codec), codec, tensors.whole.size(),
                    tensors.shapes.size(), Largest(codec, tensors.whole)));
  }
  return lines;
}

}  // namespace longhaul
