#include "compressors/families/gauss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "base/status_macros.h"
#include "compressors/families/catalog_codec.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr size_t kPieceElements = 1024;  // even, so that pairs of noise are whole

// 1/1, 1/3, ... 1/21: artanh's series.
constexpr auto kOddInverses = [] {
  std::array<double, 11> c{};
  for (size_t k = 0; k < c.size(); ++k) c[k] = 1.0 / static_cast<double>(2 * k + 1);
  return c;
}();

// -1 / (n (n + 1)) for n = first, first + 2, ...: what each term of cos (first = 1) and of sin
// (first = 2) is to the one before it.
constexpr std::array<double, 9> TermRatios(size_t first) {
  std::array<double, 9> c{};
  for (size_t k = 0; k < c.size(); ++k) {
    c[k] = -1.0 / static_cast<double>((2 * k + first) * (2 * k + first + 1));
  }
  return c;
}
constexpr auto kCosine = TermRatios(1), kSine = TermRatios(2);

// ln x for 2^-24 <= x <= 1: x = m 2^e with m near 1, and 2 artanh((m - 1) / (m + 1)). The first
// term left out is below 1e-18.
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  const double squared = s * s;
  for (size_t k = kOddInverses.size(); k-- > 0;) sum = sum * squared + kOddInverses[k];
  return 2 * s * sum + exponent * std::numbers::ln2;
}

// {cos, sin} of 2 pi turns, 0 <= turns < 1, from the series around the nearest quarter.
std::pair<double, double> OnCircle(double turns) {
  const int quarter = static_cast<int>(4 * turns + 0.5);
  const double x = (4 * turns - quarter) * (std::numbers::pi / 2);
  const double squared = x * x;
  double c = 1, s = 1;
  for (size_t k = kCosine.size(); k-- > 0;) {
    c = 1 + c * (squared * kCosine[k]);
    s = 1 + s * (squared * kSine[k]);
  }
  s *= x;
  const double along = (quarter & 1) != 0 ? s : c, across = (quarter & 1) != 0 ? c : s;
  return {((quarter + 1) & 2) != 0 ? -along : along, (quarter & 2) != 0 ? -across : across};
}

class GaussCodec final : public CatalogCodec {
 public:
  GaussCodec(std::string_view name, float nmse, Isa isa)
      : CatalogCodec(name, kGaussId, isa), nmse_(nmse) {}

  size_t MaxFrameBytes(Shape shape, DType) const override {
    return kFrameHeaderBytes + sizeof(float) * shape.elements();
  }
  absl::StatusOr<size_t> Encode(ConstTensor x, uint64_t seed, CodecState*,
                                std::span<std::byte> frame) const override;
  absl::Status Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const override;

 private:
  const float nmse_;
};

// x + deviation z for `n` elements from an even one on.
void AddNoise(double deviation, NoiseStream& words, size_t n, float* x) {
  constexpr double kMost = std::numeric_limits<float>::max();
  for (size_t i = 0; i < n; i += 2) {
    const double radius = std::sqrt(-2 * Log(1.0 - UniformOf(words.Next())));
    const auto [c, s] = OnCircle(UniformOf(words.Next()));
    x[i] = static_cast<float>(std::clamp(x[i] + deviation * radius * c, -kMost, kMost));
    if (i + 1 == n) break;
    x[i + 1] = static_cast<float>(std::clamp(x[i + 1] + deviation * radius * s, -kMost, kMost));
  }
}

absl::StatusOr<size_t> GaussCodec::Encode(ConstTensor x, uint64_t seed, CodecState*,
                                          std::span<std::byte> frame) const {
  const size_t n = x.shape.elements(), bytes = MaxFrameBytes(x.shape, x.dtype);
  RETURN_IF_ERROR(CheckEncodeArguments(name_, x, frame.size(), bytes));
  const WideReader reader(x, kernels_);
  float piece[kPieceElements];
  double squares = 0;
  for (size_t at = 0; at < n; at += kPieceElements) {
    const size_t c = std::min(kPieceElements, n - at);
    if (!reader.Read(at, c, piece)) return NotFiniteError(name_);
    for (size_t i = 0; i < c; ++i) squares += double{piece[i]} * double{piece[i]};
  }
  const double deviation = std::sqrt(double{nmse_} * (squares / static_cast<double>(n)));
  NoiseStream words(seed, NoisePurpose::kGaussian, 0);
  for (size_t at = 0; at < n; at += kPieceElements) {
    const size_t c = std::min(kPieceElements, n - at);
    reader.Read(at, c, piece);
    AddNoise(deviation, words, c, piece);
    std::memcpy(frame.data() + kFrameHeaderBytes + sizeof(float) * at, piece, sizeof(float) * c);
  }
  SealFrame({.codec = id_,
             .dtype = x.dtype,
             .flags = kFlagStochastic,
             .param0 = std::bit_cast<uint32_t>(nmse_),
             .shape = x.shape,
             .seed = seed,
             .payload_bytes = bytes - kFrameHeaderBytes},
            frame.first(bytes));
  return bytes;
}

absl::Status GaussCodec::Decode(std::span<const std::byte> frame, CodecState*, Tensor x) const {
  ASSIGN_OR_RETURN(const FrameHeader header,
                   OpenFrame(name_, id_, frame, x.shape, kFlagStochastic));
  if (header.param0 != std::bit_cast<uint32_t>(nmse_)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a frame of {}", name_, GaussName(std::bit_cast<float>(header.param0))));
  }
  if (frame.size() != MaxFrameBytes(x.shape, x.dtype)) return Corrupt("length");
  const NarrowWriter writer(x, kernels_);
  float piece[kPieceElements];
  for (size_t at = 0; at < x.shape.elements(); at += kPieceElements) {
    const size_t c = std::min(kPieceElements, x.shape.elements() - at);
    std::memcpy(piece, frame.data() + kFrameHeaderBytes + sizeof(float) * at, sizeof(float) * c);
    writer.Write(piece, at, c);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<float> ParseGaussNmse(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= kLeastGaussNmse && value <= kMostGaussNmse)) return std::nullopt;
  return value;
}

std::string GaussName(float nmse) { return fmt::format("gauss-{}", nmse); }

std::shared_ptr<const Codec> NewGaussCodec(std::string_view name, float nmse, Isa isa) {
  return std::make_shared<GaussCodec>(name, nmse, isa);
}

}  // namespace longhaul
