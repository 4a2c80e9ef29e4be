# SPDX-License-Identifier: BSD-3-Clause
# Compiles sources into an object library; all of its files have the same options, and so can share
# a precompiled header.

# Compiles the SOURCES with the OPTIONS and those of the LIBRARIES as `target`, precompiles the list
# `headers` for them, and appends the objects to the list named `to`.
function(cograd_add_objects to target headers)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "LIBRARIES;OPTIONS;SOURCES")
  if(NOT arg_SOURCES)
    return()
  endif()
  add_library(${target} OBJECT ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE cograd_flags ${arg_LIBRARIES})
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  if(COGRAD_PCH AND headers)
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
  set(${to} "${${to}}" $<TARGET_OBJECTS:${target}> PARENT_SCOPE)
endfunction()
