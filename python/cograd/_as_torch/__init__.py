# SPDX-License-Identifier: BSD-3-Clause
"""Lets a program that imports torch run on cograd."""
