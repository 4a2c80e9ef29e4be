# SPDX-License-Identifier: BSD-3-Clause
version: str
compiler: str
build_type: str
sanitize: str
openblas: str
