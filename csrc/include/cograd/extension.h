// SPDX-License-Identifier: BSD-3-Clause
// The header for authors of ops: tensors and all ops, typed access to elements, threads, autograd,
// and the registration of ops. C++17.
#pragma once
#include "cograd/accessor.h"
#include "cograd/autograd.h"
#include "cograd/dispatch.h"
#include "cograd/function.h"
#include "cograd/library.h"
#include "cograd/operators.h"
#include "cograd/ops.h"
#include "cograd/parallel.h"
#include "cograd/tensor.h"
