#include "compressors/kernels/convert.h"

#include "compressors/kernels/avx512/lanes.h"
#include "compressors/kernels/lane_kernels.h"

namespace longhaul {

const ConvertTable& Avx512Converters() {
  static constexpr ConvertTable table = MakeConverters<Avx512Lanes>();
  return table;
}

}  // namespace longhaul
