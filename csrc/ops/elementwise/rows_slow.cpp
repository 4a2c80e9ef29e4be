// SPDX-License-Identifier: BSD-3-Clause
// The rows that call a function for each element. They are compiled for size.
#define ROW_CHEAP(...)
#define ROW_DIVIDE(...)
#define ROW_MATH(...)
#define ROW_SLOW(...) __VA_ARGS__
#include "ops/elementwise/rows_define.h"
