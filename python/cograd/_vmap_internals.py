# SPDX-License-Identifier: BSD-3-Clause
"""vmap under the path that older programs import."""

from cograd._vmap import vmap as vmap
