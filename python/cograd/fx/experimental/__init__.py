# SPDX-License-Identifier: BSD-3-Clause
"""This package has fusion, which torch calls experimental."""

__all__: list[str] = []
