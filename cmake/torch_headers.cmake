# SPDX-License-Identifier: BSD-3-Clause
# Writes the forwarding headers of python/surface/headers.toml into the build folder and installs
# them. Reads the few forms of lines that this table uses, so a build of the core needs no Python.
set(table "${CMAKE_CURRENT_LIST_DIR}/../python/surface/headers.toml")
set(torch_headers_dir "${CMAKE_CURRENT_BINARY_DIR}/include/cograd/torch_compat")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
file(REMOVE_RECURSE "${torch_headers_dir}")
file(STRINGS "${table}" lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  if(line MATCHES "^include = '(.+)'$")
    set(header_text "#include ${CMAKE_MATCH_1}")
  elseif(line MATCHES "^error = \"(.+)\"$")
    set(header_text "#error \"cograd: <@name@> ${CMAKE_MATCH_1}\"")
  elseif(line MATCHES "^  ([A-Za-z0-9_/]+\\.h)$")
    string(REPLACE "@name@" "${CMAKE_MATCH_1}" text "${header_text}")
    file(WRITE "${torch_headers_dir}/${CMAKE_MATCH_1}"
      "// Stands for torch's <${CMAKE_MATCH_1}>.\n#pragma once\n${text}\n")
  elseif(NOT line MATCHES "^(\\[\\[header\\]\\]|names = \"\"\"|\"\"\")$")
    message(FATAL_ERROR "${table}: cannot read the line \"${line}\"")
  endif()
endforeach()
install(DIRECTORY "${torch_headers_dir}" DESTINATION cograd/include/cograd COMPONENT wheel)
