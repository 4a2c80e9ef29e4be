# SPDX-License-Identifier: BSD-3-Clause
# Compiles files named *_isa.cpp once per x86-64 level; on other CPUs once.
#
# Each copy sees COGRAD_ISA (base, v3 or v4) and puts its code into a namespace of that name;
# the dispatcher that picks one at run time is an ordinary file. COGRAD_HAVE_ISA_LEVELS tells it
# that v3 and v4 exist, COGRAD_HAVE_LIBMVEC that glibc has vector versions of tanhf, erff, ...
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("extern \"C\" void _ZGVbN4v_tanhf(); extern \"C\" void _ZGVeN8v_erf();
  int main() { _ZGVbN4v_tanhf(); _ZGVeN8v_erf(); }" COGRAD_LIBMVEC)
set(COGRAD_ISA_OPTIONS -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd)

function(cograd_add_isa_sources target)
  file(GLOB sources CONFIGURE_DEPENDS csrc/tensor/*_isa.cpp csrc/kernels/*_isa.cpp
    csrc/ops/*_isa.cpp)
  if(NOT sources)
    return()
  endif()
  set(levels base)
  set(libmvec)
  if(COGRAD_LIBMVEC)
    set(libmvec COGRAD_HAVE_LIBMVEC=1)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND levels v3 v4)
    target_compile_definitions(${target} PRIVATE COGRAD_HAVE_ISA_LEVELS=1)
    set(march_base -march=x86-64)
    set(march_v3 -march=x86-64-v3)
    # 512-bit vectors pay on every server CPU that has level v4.
    set(march_v4 -march=x86-64-v4 -mprefer-vector-width=512)
  endif()
  foreach(level IN LISTS levels)
    add_library(${target}_${level} OBJECT ${sources})
    target_compile_definitions(${target}_${level} PRIVATE COGRAD_ISA=${level} ${libmvec})
    target_link_libraries(${target}_${level} PRIVATE cograd_flags)
    target_compile_options(${target}_${level} PRIVATE ${COGRAD_ISA_OPTIONS} ${march_${level}})
    target_link_libraries(${target} PRIVATE ${target}_${level})
  endforeach()
endfunction()
