#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <exception>
#include <functional>
#include <string>

namespace longhaul {

// The text of the exception of type E that `act` throws.
template <typename E>
std::string Thrown(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& e) {
    if constexpr (requires { e.what_without_backtrace(); }) return e.what_without_backtrace();
    return e.what();
  } catch (const std::exception& e) {
    return c10::str("another exception: ", e.what());
  }
  return "no exception";
}

}  // namespace longhaul
