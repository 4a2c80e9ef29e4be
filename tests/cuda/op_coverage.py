# SPDX-License-Identifier: BSD-3-Clause
"""How each public op runs on CUDA: measured on the fake driver, kept in how_ops_run.txt.

Kernels are counted, but neither compiled nor run, so values are arbitrary. Ops that check values
raise then; these are measured again with kernels that run.

    python tests/cuda/op_coverage.py --update    # measures all, rewrites the file
    python tools/gpu_ops_page.py                 # rewrites the page of the docs from the file

An op is `fallback` if a call of its samples, or of CALLS, ran on the CPU in part; else `library` if
NVIDIA's libraries did a part of it (products of matrices, which cuBLASLt computes where it is
installed, factors, triangular systems); else `view` if no kernel ran at all, and `kernel`.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "table")]
KEPT = HERE / "how_ops_run.txt"
STATUSES = ("kernel", "library", "view", "fallback")
# What NVIDIA's libraries start; cuBLASLt computes what is counted as "gemm" here.
LIBRARY_CALLS = (b"gemm", b"cublas", b"cusolver")

# Calls of ops that have no samples, with tensors of float64, a (3 x 3, positive definite) and v (3,
# from 0 to 1), and c of complex numbers.
CALLS = {
    "alpha_dropout": "torch.nn.functional.alpha_dropout(v, 0.5, True)",
    "arange": "torch.arange(3, device='cuda')",
    "as_strided": "a.as_strided((2,), (1,))",
    "bernoulli": "torch.bernoulli(v)",
    "binomial": "torch.binomial(v, v)",
    "cauchy": "v.clone().cauchy_()",
    "cholesky_inverse": "torch.cholesky_inverse(a.tril())",
    "cholesky_solve": "torch.cholesky_solve(a, a.tril())",
    "copy": "v.clone().copy_(v)",
    "empty": "torch.empty(3, device='cuda')",
    "empty_like": "torch.empty_like(v)",
    "empty_strided": "torch.empty_strided((3,), (2,), device='cuda')",
    "exponential": "v.clone().exponential_()",
    "feature_alpha_dropout": "torch.nn.functional.feature_alpha_dropout(a, 0.5, True)",
    "feature_dropout": "torch.nn.functional.dropout1d(a, 0.5, True)",
    "fill_diagonal": "a.clone().fill_diagonal_(1.0)",
    "geometric": "v.clone().geometric_(0.5)",
    "imag": "c.imag",
    "linalg_cholesky_ex": "torch.linalg.cholesky_ex(a)",
    "linalg_eig": "torch.linalg.eig(a)",
    "linalg_eigvals": "torch.linalg.eigvals(a)",
    "linalg_inv_ex": "torch.linalg.inv_ex(a)",
    "linalg_ldl_factor": "torch.linalg.ldl_factor(a)",
    "linalg_ldl_factor_ex": "torch.linalg.ldl_factor_ex(a)",
    "linalg_ldl_solve": "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), a)",
    "linalg_lu_factor_ex": "torch.linalg.lu_factor_ex(a)",
    "linalg_lu_solve": "torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a)",
    "linalg_solve_ex": "torch.linalg.solve_ex(a, a)",
    "linalg_solve_triangular": "torch.linalg.solve_triangular(a.tril(), a, upper=False)",
    "linalg_svd": "torch.linalg.svd(a)",
    "linalg_vector_norm": "torch.linalg.vector_norm(v)",
    "log_normal": "v.clone().log_normal_()",
    "lu_solve": "torch.lu_solve(a, *torch.linalg.lu_factor(a))",
    "lu_unpack": "torch.lu_unpack(*torch.linalg.lu_factor(a))",
    "multinomial": "torch.multinomial(v, 2)",
    "new_empty": "v.new_empty(3)",
    "new_empty_strided": "v.new_empty_strided((3,), (2,))",
    "normal": "torch.normal(v, v)",
    "poisson": "torch.poisson(v)",
    "rand": "torch.rand(3, device='cuda')",
    "rand_like": "torch.rand_like(v)",
    "randint": "torch.randint(9, (3,), device='cuda')",
    "randint_like": "torch.randint_like(v, 9)",
    "randn": "torch.randn(3, device='cuda')",
    "randn_like": "torch.randn_like(v)",
    "random": "v.clone().random_(9)",
    "randperm": "torch.randperm(3, device='cuda')",
    "resize": "v.clone().resize_(2)",
    "resize_as": "v.clone().resize_as_(v)",
    "squeeze": "v.clone().squeeze_()",
    "svd": "torch.svd(a)",
    "swapaxes": "a.swapaxes(0, 1)",
    "swapdims": "a.swapdims(0, 1)",
    "t": "a.t()",
    "tensor_split": "v.tensor_split(2)",
    "to": "v.to(torch.float32)",
    "transpose": "a.transpose(0, 1)",
    "uniform": "v.clone().uniform_()",
    "unsqueeze": "v.unsqueeze(0)",
    "view_as_real": "torch.view_as_real(c)",
    "zero": "v.clone().zero_()",
}


def public(table):
    """Returns the records of ops that users name, also those of modules such as linalg."""
    return [r for r in table if not r["name"].startswith("_")]


def measure(names):
    """Prints "at OP" before each op, and "STATUS OP" after it; no names: all."""
    from op_table import OPS, TABLE, arguments, call, samples_of
    from test_fake_ops import on

    import cograd as torch

    driver = ctypes.CDLL(os.environ["COGRAD_CUDA_DRIVER"])
    driver.fake_cuda_launches.restype = ctypes.c_int64
    torch._C._set_fallback("silent")
    torch.manual_seed(0)
    v = torch.rand(3, dtype=torch.float64) + 0.5
    v /= v.max()
    tensors = {"v": v, "a": torch.eye(3, dtype=v.dtype) + v.outer(v), "c": torch.complex(v, v)}
    scope = {"torch": torch} | {name: t.cuda() for name, t in tensors.items()}

    def counts():
        return (
            sum(calls for calls, _ in torch._C._fallbacks().values()),
            sum(driver.fake_cuda_launches(name) for name in LIBRARY_CALLS),
            driver.fake_cuda_launches(b""),
        )

    for name in names or sorted({r["name"] for r in public(TABLE)}):
        print(f"at {name}", flush=True)
        found, good = [0, 0, 0], []

        def run(f, found=found, good=good):
            before = counts()
            try:
                f()
                good.append(True)
            except (RuntimeError, ValueError, IndexError):
                good.append(False)
            for k, (old, new) in enumerate(zip(before, counts(), strict=True)):
                found[k] += new - old

        for record in public(TABLE):
            if record["name"] != name:
                continue
            for sample in samples_of(record):
                f = OPS.function(record)
                args, kwargs = on("cuda", arguments(record, sample))
                if any(a["name"] == "device" for a in record["args"]) and record["kind"] != "cast":
                    kwargs["device"] = "cuda"
                with torch.no_grad():
                    run(lambda f=f, args=args, kwargs=kwargs: call(f, args, kwargs))
        if name in CALLS:
            with torch.no_grad():
                run(lambda name=name: eval(CALLS[name], scope))
        fallbacks, by_library, launches = found
        status = "fallback" if fallbacks else "library" if by_library else "kernel"
        if not any(good):
            print(f"raised {name}", flush=True)
            continue
        print(f"{status if fallbacks or launches else 'view'} {name}", flush=True)


def measured(names, **variables):
    """Measures in a process of its own; returns {name: status}."""
    import fakes

    done = subprocess.run(
        [sys.executable, __file__, *names],
        env=fakes.environment(**variables),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"ended {lines[-1:]} {done.stderr[-2000:]}"
    return {name: status for status, name in lines if status != "at"}


def statuses():
    """Measures all ops; returns {name: status}."""
    found = measured([], FAKE_CUDA_DRY=1, COGRAD_KERNEL_CACHE="")
    again = [name for name, status in found.items() if status == "raised"]
    return found | measured(again)


def kept():
    """Returns {name: status} as the file has it."""
    found = {}
    for line in KEPT.read_text().splitlines():
        status, names = line.split(": ", 1)
        found |= dict.fromkeys(names.split(), status)
    return found


def main():
    if "--update" not in sys.argv:
        measure(sys.argv[1:])
        return
    found, text = statuses(), ""
    for status in STATUSES:
        text += f"{status}: {' '.join(sorted(n for n, s in found.items() if s == status))}\n"
    KEPT.write_text(text)


if __name__ == "__main__":
    main()
