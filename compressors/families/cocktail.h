#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `cocktail` (CocktailSGD, ICML 2023): every tenth element, of those the fifth with the largest
// |x|, of those four bits. Element i is on the comb of a frame when (i - seed) mod 10 = 0: a caller
// that passes its step as seed walks over all elements in ten rounds. No state: what is not sent
// stays in the sender's parameters, from which it takes the next difference. Decodes to zeros
// elsewhere.
//
// The comb's elements in order fall into chunks of 5120, of which 1024 are kept (a short chunk of c
// keeps max(1, round(c / 5))); ties: the lowest index. Kept values in order, blocks of 128 (the
// last may be short): s = bf16(max|x| / 7), q = round(x / s) + 8.
// Payload, each 8-byte aligned: bit map of the comb; scales bf16; codes of 4 bits. block = 128,
// param0 = 10, param1 = seed mod 10. 0.1 (1 + 0.2 (4 + 16/128)) = 0.1825 bits per element.
std::shared_ptr<const Codec> NewCocktailCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
