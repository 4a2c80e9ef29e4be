// SPDX-License-Identifier: BSD-3-Clause
// Included first by every header here: cograd's headers with torch's names enabled, and the
// standard headers that extensions written for torch rely on.
#pragma once
#ifndef COGRAD_TORCH_COMPAT
#define COGRAD_TORCH_COMPAT 1
#endif
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cograd/extension.h"

#ifdef COGRAD_NO_TORCH_COMPAT
#error \
    "torch's headers of cograd come before <cograd/extension.h>, or compile with -DCOGRAD_TORCH_COMPAT"
#endif

// Marks state of one shared object: hidden, as two extensions would share it otherwise.
#define COGRAD_COMPAT_LOCAL __attribute__((visibility("hidden")))
