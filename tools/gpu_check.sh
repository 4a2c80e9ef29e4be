#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks a wheel on a machine with a GPU, in under 8 minutes, and builds nothing there:
#
#   tools/gpu_check.sh WHEEL [FOLDER]
#
# It needs Python with NumPy and pytest, and NVRTC, cuBLASLt, cuBLAS, cuFFT and cuSOLVER where Python's
# packages or the loader find them; with torch it also measures. FOLDER (benchmarks/results/gpu) gets the report.
set -uo pipefail
wheel=$(realpath "$1")
cd "$(dirname "$0")/.."
folder=${2:-benchmarks/results/gpu}
PYTHON=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
"$PYTHON" -m pip install -q --no-index --no-deps --target "$site" "$wheel" || exit
export PYTHONPATH=$site:$PWD PYTHONDONTWRITEBYTECODE=1 COGRAD_CUDA_TESTS=real
mkdir -p "$folder"
name=$("$PYTHON" -c 'import cograd; print(cograd.cuda.get_device_name().replace(" ", "_"))') || exit
report=$folder/$name.txt
{
  echo "# $(basename "$wheel"), $(date -u +%F), $(git rev-parse --short HEAD 2>/dev/null)"
  "$PYTHON" -m cograd doctor
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  echo "## Tests"
  timeout 300 "$PYTHON" -m pytest -q -p no:cacheprovider -n 8 tests/cuda 2>&1 | tail -40
  echo "## Graphs"
  timeout 100 "$PYTHON" -m pytest -q -rs -p no:cacheprovider -n 4 tests/cuda/test_cuda_graphs.py 2>&1 | tail -15
  echo "## Times"
  timeout 150 "$PYTHON" -m benchmarks.gpu --json "$folder/$name.json"
} 2>&1 | tee "$report"
