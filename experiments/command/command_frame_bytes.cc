// `_frame-bytes ROWS COLS CODEC`, for Python: the most bytes of the codec's frame of a float32 tensor.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "compressors/catalog.h"
#include "experiments/command/command.h"

namespace longhaul {
namespace {

struct FrameArguments {
  Shape shape{};
  std::string codec;
};

absl::Status FrameBytes(const FrameArguments& asked) {
  const auto codec = MakeCodec(asked.codec);
  if (!codec.ok()) return codec.status();
  fmt::print("{}\n", (*codec)->MaxFrameBytes(asked.shape, DType::kF32));
  return absl::OkStatus();
}

}  // namespace

void AddFrameBytesCommand(CLI::App& app, int* exit_status) {
  auto asked = std::make_shared<FrameArguments>();
  CLI::App* frame = app.add_subcommand("_frame-bytes", "")->group("");
  frame->add_option("rows", asked->shape.rows)->required();
  frame->add_option("cols", asked->shape.cols)->required();
  frame->add_option("codec", asked->codec)->required();
  frame->callback(Calling(FrameBytes, asked, exit_status));
}

}  // namespace longhaul
