# SPDX-License-Identifier: BSD-3-Clause
"""What lets a program that imports torch run on cograd."""
