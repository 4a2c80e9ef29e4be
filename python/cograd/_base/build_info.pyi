# SPDX-License-Identifier: BSD-3-Clause
version: str
compiler: str
flags: str
build_type: str
sanitize: str
lto: str
isa_levels: str
pybind11: str
openblas: str
