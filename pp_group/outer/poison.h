#pragma once

#include <span>
#include <vector>

namespace longhaul {

// Which members' outer deltas would poison an average. norms[i]: the norm of member i's delta over
// all its stages, as the others decode it; infinite or NaN: it is not finite. A pure function of
// equal bits, so that all groups decide alike without asking each other.
//
//   - Not finite: left out.
//   - Absurd: more than kAbsurdRatio times the median of the others' finite norms; with five finite
//     norms or more also beyond median + kMads times 1.4826 MAD of all their logarithms, so that a
//     wide spread of healthy groups is no poison. With fewer the spread cannot be told and the
//     ratio decides alone. A median of 0 judges nobody.
//   - A single finite norm is judged by nobody.
//
// A small norm is no poison: it pulls the average by no more than its share.
inline constexpr double kAbsurdRatio = 10;
inline constexpr double kMads = 6;
std::vector<bool> PoisonedMembers(std::span<const double> norms);

// The norm of each member's delta over all stages, from the squared norms that every stage has of
// its own part: [S] stages of [members] each, added up in the order of the stages, so that all
// stages of all groups get the same bits.
std::vector<double> NormsOverStages(std::span<const std::vector<double>> squared);

}  // namespace longhaul
