#include "plugin/core/transport.h"

#include <utility>

namespace longhaul {

KeptBytes& KeptBytes::operator=(KeptBytes&& other) noexcept {
  if (this == &other) return *this;
  if (release_ != nullptr) release_(owner_, cookie_);
  bytes_ = std::exchange(other.bytes_, {});
  release_ = std::exchange(other.release_, nullptr);
  owner_ = other.owner_;
  cookie_ = other.cookie_;
  return *this;
}

KeptBytes::~KeptBytes() {
  if (release_ != nullptr) release_(owner_, cookie_);
}

}  // namespace longhaul
