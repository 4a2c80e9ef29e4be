#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs ccache: ccache.sh CCACHE COMPILER ARGUMENT...
# ccache reads an old precompiled header where it should read the headers that it was made of, and
# so would not see that these have changed. Only the command that writes one names *.gch.
# That command compares the headers themselves (depend mode), as GCC does when it includes a header
# again; entries that were found by preprocessed text, without comments, have another namespace.
for argument; do
  case $argument in
    *.gch) rm -f -- "$argument" && export CCACHE_DEPEND=1 CCACHE_NAMESPACE=pch ;;
  esac
done
# ccache passes over precompiled headers unless it may ignore #defines that they do not use.
CCACHE_SLOPPINESS=pch_defines,time_macros exec "$@"
