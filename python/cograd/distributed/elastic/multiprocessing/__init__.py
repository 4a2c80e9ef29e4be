# SPDX-License-Identifier: BSD-3-Clause
"""See ``errors``."""

__all__: list[str] = []
