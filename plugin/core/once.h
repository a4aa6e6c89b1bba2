#pragma once

#include <concepts>
#include <functional>
#include <utility>

namespace longhaul {

// A callback that cannot run twice: running it takes it out, and it is gone before its first
// statement, so that whatever it sets off finds it spent. Move-only. Running a spent or an empty
// one does nothing: of several ends that one operation may meet (a timeout, a lost peer, its
// group's end), the first counts.
template <typename Arg>
class Once {
 public:
  Once() = default;
  template <std::invocable<Arg> F>
  requires(!std::same_as<std::remove_cvref_t<F>, Once>) Once(F&& callback)
      : callback_(std::forward<F>(callback)) {}  // NOLINT: as std::function does
  Once(Once&& other) noexcept : callback_(std::exchange(other.callback_, nullptr)) {}
  Once& operator=(Once&& other) noexcept {
    callback_ = std::exchange(other.callback_, nullptr);
    return *this;
  }

  explicit operator bool() const { return callback_ != nullptr; }

  void operator()(Arg result) {
    const std::function<void(Arg)> callback = std::exchange(callback_, nullptr);
    if (callback) callback(std::move(result));
  }

 private:
  std::function<void(Arg)> callback_;
};

}  // namespace longhaul
