#pragma once

#include <cstdint>

namespace longhaul {

// What became of one tensor at a boundary, or of several together.
struct CrossingCount {
  double bits = 0;  // of the frames, headers included
  double elements = 0;
  double squared_error = 0, squared_norm = 0;  // ||x - y||^2, ||x||^2
  int64_t tensors = 0;

  CrossingCount& operator+=(const CrossingCount& other) {
    bits += other.bits;
    elements += other.elements;
    squared_error += other.squared_error;
    squared_norm += other.squared_norm;
    tensors += other.tensors;
    return *this;
  }
  double bits_per_element() const { return elements > 0 ? bits / elements : 0; }
  double nmse() const { return squared_norm > 0 ? squared_error / squared_norm : 0; }
};

}  // namespace longhaul
