#pragma once

#include <torch/csrc/utils/pybind.h>

namespace longhaul {

// codecs(), encode(x, codec, seed) and decode(frame, out): python/longhaul/coding.py.
void BindCodecs(pybind11::module_& m);

}  // namespace longhaul
