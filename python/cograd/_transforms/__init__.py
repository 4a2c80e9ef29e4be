# SPDX-License-Identifier: BSD-3-Clause
"""What autograd and func both need of vmap."""
