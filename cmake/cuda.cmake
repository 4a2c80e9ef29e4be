# SPDX-License-Identifier: BSD-3-Clause
# Builds libcograd_cuda.so, which cograd loads when a program first uses a GPU. It needs no CUDA
# toolkit: the driver and NVRTC are found at run time.

file(GLOB cuda_sources CONFIGURE_DEPENDS csrc/cuda/*/*.cpp)
add_library(cograd_cuda SHARED ${cuda_sources})
target_link_libraries(cograd_cuda PRIVATE cograd_flags cograd ${CMAKE_DL_LIBS})
if(NOT COGRAD_SANITIZE AND NOT COGRAD_OPTIMISATION STREQUAL "-O0")
  target_compile_options(cograd_cuda PRIVATE -Os)
endif()
set_target_properties(cograd_cuda PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/cograd/lib"
  BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH "$ORIGIN")
install(TARGETS cograd_cuda LIBRARY DESTINATION cograd/lib COMPONENT wheel)
# NVRTC reads these when a kernel is first used.
install(DIRECTORY csrc/cuda/text/ csrc/cuda/nn_text/ csrc/cuda/lib_text/
  csrc/cuda/args/
  DESTINATION cograd/lib/cuda COMPONENT wheel FILES_MATCHING PATTERN "*.h")
# NVRTC also reads these sources of the CPU's kernels, which the GPU's kernels use.
file(GLOB cuda_shared CONFIGURE_DEPENDS csrc/kernels/elementwise/special_*.h
  csrc/kernels/elementwise/special_*.cpp csrc/kernels/optim/optim_flags.h
  csrc/kernels/optim/optim_rules.h csrc/kernels/random/draw_rules.h)
install(FILES ${cuda_shared} DESTINATION cograd/lib/cuda COMPONENT wheel)
