// Encode and decode speed of the codecs on a GPU, tensor and frame in device memory: what is
// enqueued is captured as a graph and replayed, so that the time is the device's alone, over
// kSets tensors in turn, so that nothing is still in a cache. The last column has the copy to the
// host in it. Beside them, in the same run and the same way, what the memory does: a
// device-to-device copy (read + write) is taken as the bandwidth.
//
// Every codec over rows of 4096; the usual pair of a boundary also over the widths of smaller models.
//
//   GB/s    of the tensor's bytes
//   share   (bytes of the tensor + bytes of the frame) per second, over the bandwidth
//
// Usage: cuda_codecs_bench [--check] [name-part]. --check: fails when int4-b64 of
// 64 Mi bf16 elements stays below 70 % of the bandwidth in either direction. Exit 77 where there is
// no GPU.
#include <cstring>
#include <memory>

#include "bench/cuda_timing.h"
#include "compressors/cuda/cuda_codec.h"
#include "compressors/kernels/convert.h"
#include "compressors/reference_tensors.h"

namespace longhaul {
namespace {

constexpr size_t kElements = size_t{64} << 20;
constexpr size_t kWidth = 4096;
constexpr double kBar = 0.7;

void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "cuda_codecs_bench: {}\n", std::string(status.message()));
  std::exit(1);
}

// CudaDevice() with copies between device and host that do nothing, so that the kernels' time is
// seen by itself.
int NoCopy(const void*, void*, size_t, CudaStream) { return 0; }
const DeviceApi& KernelsOnly() {
  static const DeviceApi api = [] {
    DeviceApi quiet = CudaDevice();
    quiet.to_host = NoCopy;
    quiet.to_device = NoCopy;
    return quiet;
  }();
  return api;
}

struct PinnedMemory {
  explicit PinnedMemory(size_t bytes) { Must(cudaMallocHost(&at, bytes)); }
  ~PinnedMemory() { cudaFreeHost(at); }
  PinnedMemory(const PinnedMemory&) = delete;
  std::byte* bytes() const { return static_cast<std::byte*>(at); }
  void* at = nullptr;
};

// Bytes per second, a copied byte counted twice.
double Bandwidth(cudaStream_t stream) {
  const size_t bytes = 4 * kElements;
  const Memory from(bytes), to(bytes);
  Must(cudaMemset(from.at, 1, bytes));
  return 2.0 * static_cast<double>(bytes) / DeviceSeconds(stream, [&](int) {
           Must(cudaMemcpyAsync(to.at, from.at, bytes, cudaMemcpyDeviceToDevice, stream));
         });
}

// kElements of `dtype` on the device.
void Fill(const Memory& x, DType dtype) {
  static const std::vector<float> drawn =
      DrawReference(Distribution::kGaussian, size_t{1} << 20, 1);
  std::vector<std::byte> piece(drawn.size() * BytesPerElement(dtype));
  for (size_t i = 0; i < drawn.size(); ++i) StoreElement(drawn[i], piece.data(), dtype, i);
  for (size_t at = 0; at < kElements * BytesPerElement(dtype); at += piece.size()) {
    Must(cudaMemcpy(x.bytes() + at, piece.data(), piece.size(), cudaMemcpyHostToDevice));
  }
}

// A tensor and the slot that it is encoded into.
struct Set {
  Set(DType dtype, const SlotBytes& needs, const PinnedMemory& host)
      : x(kElements * BytesPerElement(dtype)),
        device(needs.device),
        slot{host.bytes(), needs.host, device.bytes(), needs.device} {
    Fill(x, dtype);
  }
  const Memory x, device;
  const DeviceSlot slot;
};

struct Shares {
  double encode, decode;
};

// One line of the table: a tensor of rows of `width`.
Shares Measure(const std::string& name, DType dtype, size_t width, double bandwidth,
               cudaStream_t stream) {
  const auto whole = *MakeDeviceCodec(name, CudaDevice());
  const auto kernels = *MakeDeviceCodec(name, KernelsOnly());
  const Shape shape = {kElements / width, width};
  const SlotBytes needs = whole->Needs(shape, dtype);
  const PinnedMemory host(needs.host), frame(needs.host);
  std::vector<std::unique_ptr<Set>> sets;
  for (int i = 0; i < kSets; ++i) sets.push_back(std::make_unique<Set>(dtype, needs, host));
  const auto tensor = [&](int set) {
    return ConstTensor{sets[static_cast<size_t>(set)]->x.at, dtype, shape};
  };
  const auto slot = [&](int set) { return sets[static_cast<size_t>(set)]->slot; };

  const double encode_s = DeviceSeconds(stream, [&](int set) {
    MustBeOk(kernels->EnqueueEncode(tensor(set), 1, slot(set), stream));
  });
  const double to_host_s =
      Seconds(stream, [&] { MustBeOk(whole->EnqueueEncode(tensor(0), 1, slot(0), stream)); });
  const auto bytes = whole->FinishEncode(tensor(0), 1, slot(0));
  MustBeOk(bytes.status());
  std::memcpy(frame.at, host.at, *bytes);
  const std::span<const std::byte> sealed(frame.bytes(), *bytes);
  const auto out = [&](int set) {
    return Tensor{sets[static_cast<size_t>(set)]->x.at, dtype, shape};
  };
  for (int set = 0; set < kSets; ++set) {  // the payload stays on the device
    MustBeOk(whole->EnqueueDecode(sealed, slot(set), out(set), stream));
    Must(cudaStreamSynchronize(stream));
    MustBeOk(whole->FinishDecode(slot(set)));
  }
  const double decode_s = DeviceSeconds(stream, [&](int set) {
    MustBeOk(kernels->EnqueueDecode(sealed, slot(set), out(set), stream));
  });
  const auto elements = static_cast<double>(shape.elements());
  const double tensor_bytes = elements * static_cast<double>(BytesPerElement(dtype));
  const double moved = tensor_bytes + static_cast<double>(*bytes);
  const Shares shares = {moved / encode_s / bandwidth, moved / decode_s / bandwidth};
  fmt::print("{:<26} {:<5} {:5} {:6.3f} {:9.1f} {:6.1f}% {:9.1f} {:6.1f}% {:11.1f}\n", name,
             dtype == DType::kF32 ? "f32" : "bf16", width,
             8.0 * static_cast<double>(*bytes) / elements, 1e-9 * tensor_bytes / encode_s,
             100 * shares.encode, 1e-9 * tensor_bytes / decode_s, 100 * shares.decode,
             1e-9 * tensor_bytes / to_host_s);
  std::fflush(stdout);
  return shares;
}

int Run(std::string_view part, bool check) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    fmt::print("skipped: no GPU\n");
    return 77;
  }
  cudaDeviceProp properties;
  Must(cudaGetDeviceProperties(&properties, 0));
  cudaStream_t stream;
  Must(cudaStreamCreate(&stream));
  const double bandwidth = Bandwidth(stream);
  fmt::print("{}; {} Mi elements; device-to-device copy moves {:.0f} GB/s\n", properties.name,
             kElements >> 20, 1e-9 * bandwidth);
  fmt::print("{:<26} {:<5} {:>5} {:>6} {:>9} {:>7} {:>9} {:>7} {:>11}\n", "codec", "dtype", "width",
             "bits", "enc GB/s", "share", "dec GB/s", "share", "enc to host");
  std::vector<std::string> names = DeviceCodecNames();
  for (const char* more : {"int4-b64+sr", "topk-64of4096+fp16"}) {
    names.emplace_back(more);
  }
  bool met = true;
  for (const std::string& name : names) {
    if (name.find(part) == std::string::npos) continue;
    for (DType dtype : {DType::kBF16, DType::kF32}) {
      const Shares shares = Measure(name, dtype, kWidth, bandwidth, stream);
      if (name == "int4-b64" && dtype == DType::kBF16) {
        met = std::min(shares.encode, shares.decode) >= kBar;
      }
    }
  }
  for (const char* name : {"int8-b64", "int4-b64", "int4-b64-h64"}) {
    if (std::string_view(name).find(part) == std::string_view::npos) continue;
    for (const size_t width : {512, 576, 768, 1024}) {
      for (DType dtype : {DType::kBF16, DType::kF32})
        Measure(name, dtype, width, bandwidth, stream);
    }
  }
  Must(cudaStreamDestroy(stream));
  if (!met) fmt::print("int4-b64 of bf16 is below {:.0f} % of the bandwidth\n", 100 * kBar);
  return check && !met ? 1 : 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  bool check = false;
  std::string_view part;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--check") {
      check = true;
    } else {
      part = argv[i];
    }
  }
  return longhaul::Run(part, check);
}
