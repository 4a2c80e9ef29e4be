# SPDX-License-Identifier: BSD-3-Clause
"""The old name of hub's loader: ``load_url`` is ``hub.load_state_dict_from_url``."""

from typing import TYPE_CHECKING

from cograd.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]

if not TYPE_CHECKING:

    def __getattr__(name):
        from cograd import _absent, hub

        if name == "tqdm":  # imported at first access
            return hub.tqdm
        raise _absent.missing(__name__, name)

    del TYPE_CHECKING
