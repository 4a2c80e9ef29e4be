# SPDX-License-Identifier: BSD-3-Clause
"""``python -m torch.distributed.run``: torchrun, over MPI's launcher."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cograd.commands import torchrun

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Starts the ranks of a program, and ends this process with their exit status."""
    sys.exit(torchrun.main(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    main()
