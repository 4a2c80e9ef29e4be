# SPDX-License-Identifier: BSD-3-Clause
# Installs what find_package(cograd CONFIG) reads. Found below site-packages, where scikit-build-core
# looks, or with cograd.utils.cmake_prefix_path. An entry point would import cograd in every build.
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
