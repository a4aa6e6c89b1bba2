#pragma once

namespace longhaul {

// Of the 2^23 mantissas, how many of TAH's quotients (compressors/cuda/tah/tah_entropy.h) a GPU
// rounds otherwise than IEEE division does. They rest on its reciprocal being less than one unit in
// the last place off. Answers an error number of CUDA, 0 for none.
int CountWrongQuotients(unsigned long long& wrong);

}  // namespace longhaul
