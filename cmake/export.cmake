# SPDX-License-Identifier: BSD-3-Clause
# Installs the files that find_package(cograd CONFIG) reads. CMake finds them below site-packages,
# where scikit-build-core searches, or with cograd.utils.cmake_prefix_path. There is no entry point,
# since it would import cograd in every build.
include(CMakePackageConfigHelpers)

set(COGRAD_INCLUDE_DIR cograd/include)
set(COGRAD_LIBRARY cograd/lib/libcograd.so)
set(cograd_cmake_dir cograd/share/cmake/cograd)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/cogradConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/cogradConfig.cmake"
  INSTALL_DESTINATION "${cograd_cmake_dir}"
  PATH_VARS COGRAD_INCLUDE_DIR COGRAD_LIBRARY)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/cogradConfigVersion.cmake"
  VERSION "${PROJECT_VERSION}" COMPATIBILITY SameMajorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/cogradConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/cogradConfigVersion.cmake"
  DESTINATION "${cograd_cmake_dir}" COMPONENT wheel)
