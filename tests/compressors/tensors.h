#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/convert.h"

namespace longhaul {

// The four distributions on which codecs.md states errors.
enum class Distribution { kGaussian, kLaplace, kStudentT4, kOutlier };
inline const char* ToString(Distribution d) {
  constexpr const char* kNames[] = {"Gaussian", "Laplace", "Student-t4", "outlier"};
  return kNames[static_cast<int>(d)];
}

inline std::vector<float> Draw(Distribution d, size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::exponential_distribution<float> exponential;
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    switch (d) {
      case Distribution::kGaussian:
        x[i] = normal(rng);
        break;
      case Distribution::kLaplace:
        x[i] = (rng() & 1 ? 1.0f : -1.0f) * exponential(rng);
        break;
      case Distribution::kStudentT4: {
        double chi = 0;
        for (int j = 0; j < 4; ++j) {
          const double z = normal(rng);
          chi += z * z / 4;
        }
        x[i] = static_cast<float>(normal(rng) / std::sqrt(chi));
        break;
      }
      case Distribution::kOutlier:
        x[i] = normal(rng) * (i % 64 == 17 ? 60.0f : 1.0f);
        break;
    }
  }
  return x;
}

// A tensor that owns its elements.
struct OwnedTensor {
  OwnedTensor(Shape shape, DType dtype)
      : bytes(shape.elements() * BytesPerElement(dtype)), dtype(dtype), shape(shape) {}
  OwnedTensor(const std::vector<float>& values, Shape shape, DType dtype = DType::kF32)
      : OwnedTensor(shape, dtype) {
    for (size_t i = 0; i < values.size(); ++i) StoreElement(values[i], bytes.data(), dtype, i);
  }
  ConstTensor view() const { return {bytes.data(), dtype, shape}; }
  Tensor mutable_view() { return {bytes.data(), dtype, shape}; }
  std::vector<float> floats() const {
    std::vector<float> v(shape.elements());
    for (size_t i = 0; i < v.size(); ++i) v[i] = LoadElement(bytes.data(), dtype, i);
    return v;
  }
  std::vector<std::byte> bytes;
  DType dtype;
  Shape shape;
};

// One frame, cut to its length; a codec's state is made where it wants one and none is given.
inline absl::StatusOr<std::vector<std::byte>> EncodeToFrame(const Codec& codec, ConstTensor x,
                                                            uint64_t seed = 1,
                                                            CodecState* state = nullptr) {
  std::unique_ptr<CodecState> own;
  if (state == nullptr) {
    own = codec.NewState(x.shape);
    state = own.get();
  }
  std::vector<std::byte> frame(codec.MaxFrameBytes(x.shape, x.dtype), std::byte{0xAA});
  const absl::StatusOr<size_t> bytes = codec.Encode(x, seed, state, frame);
  if (!bytes.ok()) return bytes.status();
  frame.resize(*bytes);
  return frame;
}

// ||x - y||^2 / ||x||^2
inline double Nmse(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    energy += double{x[i]} * x[i];
  }
  return error / energy;
}

// "int4-b64-h64+ef" -> "int4_b64_h64_ef", for the names of parameterised tests.
inline std::string TestName(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace longhaul
