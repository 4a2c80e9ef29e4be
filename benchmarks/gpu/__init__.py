# SPDX-License-Identifier: BSD-3-Clause
"""Times cograd on a GPU beside torch on the same one: python -m benchmarks.gpu."""
