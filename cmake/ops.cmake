# SPDX-License-Identifier: BSD-3-Clause
# Compiles the ops, csrc/ops. Each of their files includes the same 1,500 lines of templates, which
# take two thirds of its compile time unless they are precompiled.

# Compiles `ARGN`; `to` names the list to which the objects are appended.
function(cograd_add_ops to)
  # GCC 12 mistakes the bounds of a std::string here if its header was precompiled.
  set_source_files_properties(csrc/ops/reduce/variance.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set(small ${ARGN})
  set(result ${${to}})
  # Ops that spend their time in kernels are compiled for size, which saves 0.1 MB of the wheel.
  # An optimisation level needs a precompiled header of its own, therefore a target.
  set(nn "conv|ctc|fold|interpolate|loss_class|pool|resample")
  list(FILTER small INCLUDE REGEX "csrc/ops/((linalg|optim|random|sort|transform)/|nn/(${nn}))")
  list(FILTER small EXCLUDE REGEX "/matmul[a-z_]*\\.cpp$")
  set(fast ${ARGN})
  if(small)
    list(REMOVE_ITEM fast ${small})
  endif()
  foreach(kind IN ITEMS fast small)
    if(NOT ${kind})
      continue()
    endif()
    set(target cograd_${kind}_ops)
    add_library(${target} OBJECT ${${kind}})
    target_link_libraries(${target} PRIVATE cograd_flags OpenBLAS32::openblas)
    if(COGRAD_PCH)
      target_precompile_headers(${target} PRIVATE <ops/declare/ops.h> <ops/declare/batch_call.h>
        <ops/compute/elementwise.h>)
    endif()
    if(kind STREQUAL "small" AND NOT COGRAD_SANITIZE)
      target_compile_options(${target} PRIVATE -Os)
    endif()
    list(APPEND result $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(${to} "${result}" PARENT_SCOPE)
endfunction()
