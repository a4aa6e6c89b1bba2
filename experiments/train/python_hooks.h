#pragma once

#include <cstdint>

#include "pp_group/outer/outer_hooks.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {

// Rules of outer steps that are a class of the user's (docs/outer-python.md), in the Python process of
// this one. Their errors name the class and the place in its file.
NewOuterHooks PythonOuterHooks(const PythonClass& named, int64_t threads);

}  // namespace longhaul
