# SPDX-License-Identifier: BSD-3-Clause
"""vmap and unit vectors, which autograd and func both use."""
