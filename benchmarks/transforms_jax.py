# SPDX-License-Identifier: BSD-3-Clause
"""Compares the transforms with JAX: ``python -m benchmarks.transforms_jax --jax-python PYTHON``.

JAX compiles a function once (``jit``) and runs it many times; both columns exclude the first call.
The programs and sizes are those of the group "transforms". The two run in turns.
"""

# mypy: ignore-errors
from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time

ROUNDS, SECONDS = 5, 0.2


def mlp(jnp, params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w.T + b)
    w, b = params[-1]
    return x @ w.T + b


def jax_cases(compiled):
    import jax
    import jax.numpy as jnp

    finish = jax.block_until_ready
    wrap = jax.jit if compiled else lambda f: f
    key = iter(jax.random.split(jax.random.PRNGKey(0), 100))

    def randn(*shape):
        return jax.random.normal(next(key), shape)

    def layers(*sizes):
        return [(randn(o, i), randn(o)) for i, o in itertools.pairwise(sizes)]

    deep, flat, x = layers(64, 64, 64, 10), layers(16, 32, 4), randn(64, 64)
    directions = jax.tree.map(lambda p: randn(*p.shape), deep)
    jvp = wrap(lambda p, t: jax.jvp(lambda p: mlp(jnp, p, x), (p,), (t,)))
    cases = {"jvp of an MLP of 3 layers, batch 64": lambda: finish(jvp(deep, directions))}

    def loss(p, x, y):
        return ((mlp(jnp, p, x) - y) ** 2).mean()

    for batch in (64, 512):
        xs, ys = randn(batch, 16), randn(batch, 4)
        grads = wrap(jax.vmap(jax.grad(loss), (None, 0, 0)))
        cases[f"per-sample gradients of an MLP, batch {batch}"] = lambda g=grads, xs=xs, ys=ys: (
            finish(g(flat, xs, ys))
        )
    a, v = randn(100, 100) * 0.1, randn(100)
    hessian = wrap(jax.hessian(lambda x: (jnp.tanh(a @ x) ** 2).sum() + (x**4).sum()))
    cases["Hessian of a function of 100 numbers"] = lambda: finish(hessian(v))
    w1, w2 = randn(100, 100) * 0.1, randn(100, 100) * 0.1
    for how in ("jacrev", "jacfwd"):
        jacobian = wrap(getattr(jax, how)(lambda x: jnp.tanh(jnp.tanh(x @ w1) @ w2)))
        cases[f"Jacobian of an MLP 100 -> 100 by {how}"] = lambda j=jacobian: finish(j(v))
    many = jax.tree.map(lambda *p: jnp.stack(p), *[layers(16, 32, 4) for _ in range(10)])
    few = randn(8, 16)
    ensemble = wrap(jax.vmap(lambda p, x: mlp(jnp, p, x), (0, None)))
    cases["ensemble of 10 MLPs by vmap of functional_call"] = lambda: finish(ensemble(many, few))
    return cases


def cograd_cases():
    import cograd

    from . import transforms

    rows = {
        "jvp of an MLP of 3 layers, batch 64": transforms.jvp_mlp(cograd),
        "Hessian of a function of 100 numbers": transforms.hessian(cograd),
        "ensemble of 10 MLPs by vmap of functional_call": transforms.ensemble(cograd),
    }
    for batch in (64, 512):
        name = f"per-sample gradients of an MLP, batch {batch}"
        rows[name] = transforms.per_sample(cograd, batch)
    for how in ("jacrev", "jacfwd"):
        rows[f"Jacobian of an MLP 100 -> 100 by {how}"] = transforms.jacobian(cograd, how)
    cograd.set_num_threads(2)
    codes = {name: compile(code, name, "eval") for name, (code, _) in rows.items()}
    return {k: lambda c=codes[k], n=names: eval(c, n) for k, (_, names) in rows.items()}


def measure(call):
    """Returns the seconds of the fastest call within the time for one sample."""
    call()
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=sys.executable)
    parser.add_argument("--side", choices=("cograd", "eager", "jit"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        cases = cograd_cases() if given.side == "cograd" else jax_cases(given.side == "jit")
        print(json.dumps({name: measure(call) for name, call in cases.items()}))
        return
    best = {}
    for _ in range(ROUNDS):
        for side in ("cograd", "eager", "jit"):
            python = sys.executable if side == "cograd" else given.jax_python
            command = [python, "-m", "benchmarks.transforms_jax", "--side", side]
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            for name, seconds in found.items():
                row = best.setdefault(name, {})
                row[side] = min(row.get(side, seconds), seconds)
    print(f"{'':50}{'cograd':>10}{'JAX':>10}{'JAX, jit':>10}   (us)")
    for name, row in best.items():
        print(f"{name:50}" + "".join(f"{row[s] * 1e6:10.1f}" for s in ("cograd", "eager", "jit")))


if __name__ == "__main__":
    main()
