# SPDX-License-Identifier: BSD-3-Clause
# Finds the OpenBLAS of the Python package scipy-openblas32 and defines OpenBLAS32::openblas.
#
# Its symbols have the prefix scipy_ (scipy_cblas_sgemm, scipy_dgetrf_, ...), with which
# csrc/kernels/libraries/blas.cpp declares them. Cache variables: OpenBLAS32_LIBRARY, OpenBLAS32_INCLUDE_DIR.
# Sets OpenBLAS32_LIBRARY_DIR and OpenBLAS32_VERSION.
if(NOT OpenBLAS32_LIBRARY OR NOT OpenBLAS32_INCLUDE_DIR OR NOT EXISTS "${OpenBLAS32_LIBRARY}")
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import scipy_openblas32 as b; print(b.get_lib_dir()); print(b.get_include_dir()); \
print(b.__version__)"
    OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE rc OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(rc EQUAL 0)
    string(REPLACE "\n" ";" out "${out}")
    list(GET out 0 lib_dir)
    list(GET out 1 include_dir)
    list(GET out 2 version)
    set(OpenBLAS32_LIBRARY "${lib_dir}/libscipy_openblas.so" CACHE FILEPATH "" FORCE)
    set(OpenBLAS32_INCLUDE_DIR "${include_dir}" CACHE PATH "" FORCE)
    set(OpenBLAS32_VERSION "${version}" CACHE STRING "" FORCE)
  else()
    message(STATUS "${Python_EXECUTABLE} cannot import scipy_openblas32: ${err}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS32
  REQUIRED_VARS OpenBLAS32_LIBRARY OpenBLAS32_INCLUDE_DIR VERSION_VAR OpenBLAS32_VERSION
  REASON_FAILURE_MESSAGE "Install it with: pip install scipy-openblas32")

if(OpenBLAS32_FOUND AND NOT TARGET OpenBLAS32::openblas)
  get_filename_component(OpenBLAS32_LIBRARY_DIR "${OpenBLAS32_LIBRARY}" DIRECTORY)
  add_library(OpenBLAS32::openblas SHARED IMPORTED)
  set_target_properties(OpenBLAS32::openblas PROPERTIES
    IMPORTED_LOCATION "${OpenBLAS32_LIBRARY}"
    IMPORTED_SONAME libscipy_openblas.so
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS32_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS BLAS_SYMBOL_PREFIX=scipy_)
endif()
