# SPDX-License-Identifier: BSD-3-Clause
"""What processes leave in /dev/shm."""

import os

OTHERS = ("sem.", "torch_", "mpich_shm_", "ucx_shm_")  # of processes that other tests run meanwhile


def segments():
    """Names in /dev/shm but for those that other processes make too."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(OTHERS)}
