#pragma once

#include <vector>

namespace longhaul {

// A piecewise cubic through points that keeps their order: where they fall, so does it (PCHIP:
// Fritsch and Butland's weighted harmonic mean of the secants, three-point ends). Two points give a
// line. Outside of the points it goes on along its end's tangent, or, where that is level, along
// the line from end to end.
struct MonotoneCubic {
  std::vector<double> x, y, tangent;  // x rises

  // Two points or more.
  static MonotoneCubic Through(std::vector<double> x, std::vector<double> y);

  double At(double x) const;
  double TangentAt(double x) const;
  // The first x at which a curve that falls has come down to `y`. Where the points fall it is the
  // only one.
  double Inverse(double y) const;

 private:
  // The line outside: before the first point, or behind the last.
  double OuterTangent(bool behind) const;
};

}  // namespace longhaul
