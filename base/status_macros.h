#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when an expression is an error. That function returns
// absl::Status or absl::StatusOr. Each macro is one or more statements: braces around it below `if`.

// RETURN_IF_ERROR(Write(file));
#define RETURN_IF_ERROR(...) \
  if (absl::Status status_macro = (__VA_ARGS__); !status_macro.ok()) return status_macro

// ASSIGN_OR_RETURN(const Spec spec, ReadSpec(file));
#define ASSIGN_OR_RETURN(variable, ...) \
  LONGHAUL_ASSIGN_OR_RETURN(LONGHAUL_CONCAT(status_or_, __COUNTER__), variable, __VA_ARGS__)
#define LONGHAUL_ASSIGN_OR_RETURN(result, variable, ...) \
  auto result = (__VA_ARGS__);                           \
  if (!result.ok()) return std::move(result).status();   \
  variable = *std::move(result)
#define LONGHAUL_CONCAT(a, b) LONGHAUL_CONCAT_(a, b)
#define LONGHAUL_CONCAT_(a, b) a##b
