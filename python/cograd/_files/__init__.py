# SPDX-License-Identifier: BSD-3-Clause
"""Reads and writes torch's file format; cograd.serialization is its public face."""
