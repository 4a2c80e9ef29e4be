# SPDX-License-Identifier: BSD-3-Clause
"""The old name of ``hub``'s files: ``load_url`` is ``hub.load_state_dict_from_url``."""

from cograd.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
