#include "python/module/codecs.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "plugin/backend/torch_error.h"

namespace py = pybind11;

namespace longhaul {
namespace {

std::optional<DType> DTypeOf(at::ScalarType type) {
  if (type == at::kFloat) return DType::kF32;
  if (type == at::kBFloat16) return DType::kBF16;
  if (type == at::kHalf) return DType::kF16;
  return std::nullopt;
}

at::ScalarType ScalarTypeOf(DType type) {
  return type == DType::kF32 ? at::kFloat : type == DType::kBF16 ? at::kBFloat16 : at::kHalf;
}

DType CheckedDType(const at::Tensor& x, const char* op) {
  const std::optional<DType> type = DTypeOf(x.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(type && x.layout() == at::kStrided, "longhaul.", op, ": ",
                              x.scalar_type(), " ", x.layout(),
                              "; want a dense float32, bfloat16 or float16 tensor");
  return *type;
}

std::vector<std::string> Names() {
  std::vector<std::string> names = CodecNames();
  for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
  for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  return names;
}

bool KeepsState(const std::string& name) {
  const auto codec = MakeCodec(name);
  TORCH_CHECK_VALUE(codec.ok(), "longhaul: ", std::string(codec.status().message()));
  constexpr Shape kAny = {64, 64};
  return (*codec)->NewState(kAny) != nullptr || (*codec)->NewDecoderState(kAny) != nullptr;
}

at::Tensor Encode(const at::Tensor& x, const std::string& name, uint64_t seed) {
  const DType type = CheckedDType(x, "encode");
  TORCH_CHECK_VALUE(x.numel() > 0, "longhaul.encode: a tensor ", x.sizes(), " has no elements");
  TORCH_CHECK_VALUE(name != "none",
                    "longhaul.encode: 'none' makes no frame: the values go as they are");
  const auto codec = MakeCodec(name);
  TORCH_CHECK_VALUE(codec.ok(), "longhaul.encode: ", std::string(codec.status().message()));
  const at::Tensor values = x.detach().resolve_neg().cpu().contiguous();
  const uint64_t cols = values.dim() == 0 ? 1 : static_cast<uint64_t>(values.size(-1));
  const Shape shape{.rows = static_cast<uint64_t>(values.numel()) / cols, .cols = cols};
  const at::Tensor frame =
      at::empty({static_cast<int64_t>((*codec)->MaxFrameBytes(shape, type))}, at::kByte);
  const std::unique_ptr<CodecState> state = (*codec)->NewState(shape);
  const absl::StatusOr<size_t> bytes = (*codec)->Encode(
      {values.data_ptr(), type, shape}, seed, state.get(),
      {static_cast<std::byte*>(frame.data_ptr()), static_cast<size_t>(frame.numel())});
  ThrowIfError(bytes.status());
  return frame.narrow(0, 0, static_cast<int64_t>(*bytes)).clone();
}

at::Tensor Decode(const at::Tensor& frame, const std::optional<at::Tensor>& out) {
  TORCH_CHECK_VALUE(frame.scalar_type() == at::kByte && frame.dim() == 1,
                    "longhaul.decode: a frame is a uint8 tensor [bytes], not ", frame.scalar_type(),
                    frame.sizes());
  const at::Tensor bytes = frame.cpu().contiguous();
  const std::span<const std::byte> span(static_cast<const std::byte*>(bytes.data_ptr()),
                                        static_cast<size_t>(bytes.numel()));
  const absl::StatusOr<FrameHeader> header = ParseFrame(span);
  ThrowIfError(header.status());
  at::Tensor x;
  if (out) {
    CheckedDType(*out, "decode");
    TORCH_CHECK_VALUE(out->is_cpu() && out->is_contiguous() &&
                          static_cast<uint64_t>(out->numel()) == header->shape.elements(),
                      "longhaul.decode: the frame has ", header->shape.rows, " x ",
                      header->shape.cols,
                      " elements; out must be contiguous, on the host, and have "
                      "as many, not ",
                      out->sizes());
    x = *out;
  } else {
    x = at::empty(
        {static_cast<int64_t>(header->shape.rows), static_cast<int64_t>(header->shape.cols)},
        ScalarTypeOf(header->dtype));
  }
  const at::Tensor plain = x.detach();
  ThrowIfError(DecodeFrame(span, {plain.data_ptr(), *DTypeOf(plain.scalar_type()), header->shape}));
  return x;
}

}  // namespace

void BindCodecs(py::module_& m) {
  m.def("codecs", &Names);
  m.def("keeps_state", &KeepsState);
  m.def("encode", &Encode, py::call_guard<py::gil_scoped_release>());
  m.def("decode", &Decode, py::call_guard<py::gil_scoped_release>());
}

}  // namespace longhaul
