# SPDX-License-Identifier: BSD-3-Clause
"""What torch calls experimental: fusion."""

__all__: list[str] = []
