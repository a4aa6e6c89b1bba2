#pragma once

#include <cctype>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/kernels/convert.h"
#include "compressors/reference_tensors.h"

namespace longhaul {

inline std::vector<float> Draw(Distribution d, size_t n, uint64_t seed) {
  return DrawReference(d, n, seed);
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

// The names that the suites run over: the catalogue, its aliases, and compositions that stand for
// the ways to compose.
inline std::vector<std::string> ComposedNames() {
  std::vector<std::string> names = {"topk-64of4096+fp16",
                                    "topk-410of4096+int4-b64",
                                    "topk-3of7+none",
                                    "topk-1024of4096+stat2",
                                    "randk-952of4096+fp16+ef",
                                    "int8-b64+sr",
                                    "int4-b64-h64+sr",
                                    "minmax3-b64+sr",
                                    "mxfp4+sr",
                                    "mxfp4-h32+sr",
                                    "none+ef",
                                    "int8-b64+ef",
                                    "int4-b64-h64+ef",
                                    "minmax2-b64+ef95",
                                    "stat2+ef95",
                                    "sign1+ef",
                                    "int4-b64+sr+ef",
                                    "powersgd-r1",
                                    "powersgd-r4",
                                    "gauss-0.01",
                                    "none+ef21",
                                    "int4-b64+ef21",
                                    "topk-64of4096+stat2+ef21",
                                    "randk-952of4096+fp16+ef21",
                                    "int4-b64-h64+sat",
                                    "minmax4-b64+ef21+sat",
                                    "aqsgd4+sat"};
  for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  return names;
}
inline std::vector<std::string> TestedNames() {
  std::vector<std::string> names = CodecNames();
  for (std::string& name : ComposedNames()) names.push_back(std::move(name));
  return names;
}

// The names of the catalogue that keep no state, and so may be wrapped.
inline std::vector<std::string> StatelessNames() {
  std::vector<std::string> names = CodecNames();
  std::erase_if(names, [](const std::string& name) {
    return (*MakeCodec(name))->NewState({1, 1}) != nullptr;
  });
  return names;
}

// An alias's parts, or the name itself.
inline std::string PartsOf(const std::string& name) {
  for (const CodecAlias& alias : CodecAliases()) {
    if (alias.name == name) return std::string(alias.parts);
  }
  return name;
}

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

// "int4-b64-h64+ef" -> "int4_b64_h64_ef", for the names of parameterised tests.
inline std::string TestName(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace longhaul
