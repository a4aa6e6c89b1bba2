// What the units of this folder share of torch, precompiled once: these headers cost 6 to 13 s a
// unit.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
