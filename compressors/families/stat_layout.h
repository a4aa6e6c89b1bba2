#pragma once

#include "compressors/frame/frame.h"
#include "compressors/numbers/bit_pack.h"

namespace longhaul {

// What a codec of statistical.h is.
struct StatForm {
  int bits;
  bool by_rows;  // a table for every row, else one for the tensor
};

// The tables of a tensor, `elements` under each, and where they and their codes lie in a frame.
struct StatLayout {
  StatLayout(StatForm form, Shape shape)
      : tables(form.by_rows ? shape.rows : 1),
        elements(form.by_rows ? shape.cols : shape.elements()),
        table_bytes(4 * (1 + (size_t{1} << form.bits))),
        code_bytes(PackedBytes(elements, form.bits)),
        codes_at(kFrameHeaderBytes + AlignUp8(tables * table_bytes)),
        frame_bytes(codes_at + tables * code_bytes) {}
  size_t tables, elements, table_bytes, code_bytes, codes_at, frame_bytes;
};

}  // namespace longhaul
