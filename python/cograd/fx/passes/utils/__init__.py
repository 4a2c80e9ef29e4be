# SPDX-License-Identifier: BSD-3-Clause
"""What passes share: matching."""

__all__: list[str] = []
