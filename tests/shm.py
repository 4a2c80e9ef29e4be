# SPDX-License-Identifier: BSD-3-Clause
"""Lists the segments that processes leave in /dev/shm."""

import os

OTHERS = ("sem.", "torch_", "mpich_shm_", "ucx_shm_")  # from processes of other tests


def segments():
    """Returns the names in /dev/shm, without those that other processes create too."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(OTHERS)}
