# SPDX-License-Identifier: BSD-3-Clause
# Writes the wheel's components (CycloneDX, PEP 770) into its metadata. The serial number is derived
# from the contents, so that equal builds have equal serial numbers.
string(UUID COGRAD_SBOM_UUID NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 TYPE SHA1 NAME
  "cograd ${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} \
${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR} ${pybind11_VERSION} ${OpenBLAS32_VERSION}")
configure_file(cmake/sbom.cdx.json.in cograd.cdx.json @ONLY)
if(SKBUILD_METADATA_DIR)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cograd.cdx.json"
    DESTINATION "${SKBUILD_METADATA_DIR}/sboms" COMPONENT wheel)
endif()
