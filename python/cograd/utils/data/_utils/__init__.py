# SPDX-License-Identifier: BSD-3-Clause
"""Parts of ``DataLoader``: collating, fetching and the worker's main loop."""

from cograd.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
