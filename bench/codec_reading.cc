// What memory allows, for codec_peers.py: reads every word of x: [n].
#include "bench/codec_timing.h"

extern "C" void LonghaulReadAll(const float* x, size_t n) { longhaul::ReadAll(x, n); }
