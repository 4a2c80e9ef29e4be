# SPDX-License-Identifier: BSD-3-Clause
# Compiles the ops, csrc/ops. Each of their files includes the same 1,500 lines of templates, which
# take two thirds of its compile time unless they are precompiled.

# Compiles `ARGN`; `to` names the list to which the objects are appended.
function(cograd_add_ops to)
  # GCC 12 mistakes the bounds of a std::string here if its header was precompiled.
  set_source_files_properties(csrc/ops/reduce/variance.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set(small ${ARGN})
  # Ops that spend their time in kernels, or are seldom called, are compiled for size, which saves
  # 0.2 MB of the wheel. An optimisation level needs a precompiled header, therefore a target.
  set(index "nonzero|scatter_reduce|take")
  set(nn "conv|ctc|embedding_bag|fold|interpolate|loss_class|pad|pool|resample|rnn")
  set(reduce "calculus|covariance|histogram|scan")
  set(shape "combine|diagonal|rearrange|slice_scatter|tensor_split|triangular|unfold")
  list(FILTER small INCLUDE REGEX "csrc/ops/((linalg|optim|random|sort|transform)/|index/(${index})|\
nn/(${nn})|reduce/(${reduce})|shape/(${shape})|elementwise/(frexp|rows_slow))")
  list(FILTER small EXCLUDE REGEX "/(matmul[a-z_]*|norms)\\.cpp$")
  set(fast ${ARGN})
  if(small)
    list(REMOVE_ITEM fast ${small})
  endif()
  set(headers "<ops/declare/ops.h>;<ops/declare/batch_call.h>;<ops/compute/elementwise.h>")
  if(NOT COGRAD_SANITIZE)
    set(for_size -Os)
  endif()
  cograd_add_objects(${to} cograd_fast_ops "${headers}"
    LIBRARIES OpenBLAS32::openblas SOURCES ${fast})
  cograd_add_objects(${to} cograd_small_ops "${headers}"
    LIBRARIES OpenBLAS32::openblas OPTIONS ${for_size} SOURCES ${small})
  set(${to} "${${to}}" PARENT_SCOPE)
endfunction()
