#pragma once

#include <functional>
#include <memory>

#include "compressors/families/block_rows.h"
#include "compressors/frame/frame_pieces.h"

namespace longhaul {

// The frames of one block scheme, rounded to nearest, in pieces of whole blocks, or of whole rows
// where rows end in short blocks.
struct BlockPiecesOf {
  BlockScheme scheme;
  const Kernels& kernels;
  Shape shape;
  FrameHeader header;
  std::function<absl::Status(BlockFault)> fault;  // what a codec says of a tensor's fault
  std::function<absl::Status(std::span<const std::byte> frame)> check_header;
};
std::unique_ptr<FramePieces> NewBlockPieces(BlockPiecesOf of);

}  // namespace longhaul
