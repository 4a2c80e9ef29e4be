# SPDX-License-Identifier: BSD-3-Clause
"""Process groups over MPI: the runtime, buffers, dtypes and checks between ranks."""
