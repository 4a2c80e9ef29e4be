# SPDX-License-Identifier: BSD-3-Clause
"""Builds the package rms_norm with its op."""

from setuptools import setup

from cograd.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[CppExtension("rms_norm._ops", ["src/rms_norm.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
