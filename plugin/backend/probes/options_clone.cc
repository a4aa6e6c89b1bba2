// Compiles where c10d::Backend::Options has a virtual clone() (from torch 2.14 on).
#include <torch/csrc/distributed/c10d/Backend.hpp>

struct ProbeOptions : c10d::Backend::Options {
  ProbeOptions() : Options("probe") {}
  c10::intrusive_ptr<Options> clone() const override {
    return c10::make_intrusive<ProbeOptions>(*this);
  }
};

void Use(const ProbeOptions& options) { options.clone(); }
