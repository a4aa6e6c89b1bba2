#pragma once

namespace longhaul {

// Of every run that trains: the unigram entropy of the tokens that it is evaluated on, nat
// (train/byte_frequencies.h).
inline constexpr char kUnigramFact[] = "held_out_unigram_nat";

}  // namespace longhaul
