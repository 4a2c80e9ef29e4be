# SPDX-License-Identifier: BSD-3-Clause
# Compiles the kernels that exist once per x86-64 level; other CPUs only have the level base.
#
# A file is compiled per level if it contains namespace cograd::kernels::COGRAD_ISA, where
# COGRAD_ISA is base, v3 or v4. The files that choose a level at run time (kernels/core/isa.h) are
# compiled once.
set(COGRAD_ISA_OPTIONS ${COGRAD_KERNEL_OPTIMISATION} -fno-math-errno -fno-trapping-math -fwrapv -fopenmp-simd)
set(COGRAD_ISA_LEVELS "base;v3;v4" CACHE STRING "Levels to build; base is always built")
set(COGRAD_ISA_BUILT base)
# Most kernels include these, which takes half a second for each file unless they are precompiled.
set(COGRAD_KERNEL_HEADERS "<kernels/core/isa.h>;<kernels/core/floating.h>;<tensor/slot.h>;\
<algorithm>;<cmath>;<limits>;<memory>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  foreach(level IN ITEMS v3 v4)
    if(level IN_LIST COGRAD_ISA_LEVELS)
      list(APPEND COGRAD_ISA_BUILT ${level})
    else()
      string(TOUPPER ${level} name)
      target_compile_definitions(cograd_flags INTERFACE COGRAD_WITHOUT_${name})
    endif()
  endforeach()
  set(COGRAD_ISA_OPTIONS_base -march=x86-64)
  # The baseline is for processors from before 2013: vectorised but not unrolled, it is a fifth
  # smaller. Its kernels of layers and sums are compiled for size.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND COGRAD_ISA_OPTIONS_base -O2 -fvect-cost-model=cheap)
    if(NOT COGRAD_SANITIZE)
      set(COGRAD_BASE_FOR_SIZE TRUE)
    endif()
  endif()
  set(COGRAD_ISA_OPTIONS_v3 -march=x86-64-v3)
  # GCC 12 mistakes undefined operands in its own AVX-512 headers for uninitialized variables.
  set(COGRAD_ISA_OPTIONS_v4 -march=x86-64-v4 -mprefer-vector-width=512 -Wno-maybe-uninitialized)
endif()

# Moves the files that are compiled once per level from one named list to the other.
function(cograd_split_isa_sources from_list to_list)
  set(ordinary)
  set(per_level)
  foreach(file IN LISTS ${from_list})
    file(STRINGS "${file}" hit LIMIT_COUNT 1
      REGEX "^namespace cograd::kernels::COGRAD_ISA")
    if(hit)
      list(APPEND per_level "${file}")
    else()
      list(APPEND ordinary "${file}")
    endif()
  endforeach()
  set(${from_list} "${ordinary}" PARENT_SCOPE)
  set(${to_list} "${per_level}" PARENT_SCOPE)
endfunction()

# Compiles `ARGN` once per level; `objects` names the list that receives the objects, baseline
# first.
function(cograd_add_isa_objects objects)
  if(ARGN)
    foreach(level IN LISTS COGRAD_ISA_BUILT)
      set(sources ${ARGN})
      set(targets cograd_${level})
      if(level STREQUAL base AND COGRAD_BASE_FOR_SIZE)
        set(layers ${sources})
        list(FILTER layers INCLUDE REGEX "csrc/kernels/(nn|reduce)/")
        list(REMOVE_ITEM sources ${layers})
        cograd_add_objects(result cograd_base_layers "${COGRAD_KERNEL_HEADERS}"
          OPTIONS ${COGRAD_ISA_OPTIONS} ${COGRAD_ISA_OPTIONS_base} -Os SOURCES ${layers})
        list(APPEND targets cograd_base_layers)
      endif()
      cograd_add_objects(result cograd_${level} "${COGRAD_KERNEL_HEADERS}"
        OPTIONS ${COGRAD_ISA_OPTIONS} ${COGRAD_ISA_OPTIONS_${level}} SOURCES ${sources})
      foreach(target IN LISTS targets)
        target_compile_definitions(${target} PRIVATE COGRAD_ISA=${level})
      endforeach()
    endforeach()
  endif()
  set(${objects} "${result}" PARENT_SCOPE)
endfunction()

# Collects the objects of ops, kernels and the C interface in the build `folder`, and separately
# those that it compiled once per level, baseline first.
function(cograd_objects_of folder to_ordinary to_per_level)
  # The compile commands name what the build has now; its folder may have older objects.
  set(commands "${folder}/compile_commands.json")
  set(start "\"output\": \"[^\"]*CMakeFiles/cograd")
  file(STRINGS "${commands}" ordinary REGEX
    "${start}_(api|kernels|[a-z]+_ops)\\.dir/[^\"]*\\.o\"")
  foreach(level IN LISTS COGRAD_ISA_BUILT)
    file(STRINGS "${commands}" found REGEX "${start}_${level}[a-z_]*\\.dir/[^\"]*\\.o\"")
    list(APPEND per_level ${found})
  endforeach()
  foreach(list IN ITEMS ordinary per_level)
    list(TRANSFORM ${list} REPLACE ".*(CMakeFiles/[^\"]*)\".*" "${folder}/\\1")
  endforeach()
  if(NOT ordinary OR NOT per_level)
    message(FATAL_ERROR "COGRAD_OBJECTS: ${folder} contains no objects of a finished build")
  endif()
  set_source_files_properties(${ordinary} ${per_level} PROPERTIES EXTERNAL_OBJECT TRUE)
  set(${to_ordinary} "${ordinary}" PARENT_SCOPE)
  set(${to_per_level} "${per_level}" PARENT_SCOPE)
endfunction()
