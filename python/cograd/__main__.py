# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd COMMAND``: each command is a module of ``cograd.commands``."""

import sys

from cograd.commands import main

if __name__ == "__main__":
    sys.exit(main())
