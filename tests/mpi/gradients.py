# SPDX-License-Identifier: BSD-3-Clause
"""Checks of differentiable communication, which compare derivatives with finite differences.

The function is the sum of the losses of all ranks. A direction that is zero on all ranks but one
shows whether the gradient of that rank is right.
"""

import sys

import checks

import cograd as torch
import cograd.distributed as dist
from cograd.distributed.nn import functional as F

D = torch.float64


def total(value):
    """Returns the sum of a number over the ranks."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value.item()


def weights(out):
    """Returns numbers in the shape of `out` that differ by element and by rank."""
    n = torch.arange(out.numel(), dtype=D).reshape(out.shape)
    return (n * 1.7 + dist.get_rank()).sin() + 0.3


def curve(out):
    """Returns a real number that depends on `out` and has a second derivative that is not zero."""
    out = torch.view_as_real(out) if out.is_complex() else out
    return (weights(out) * (out + 0.3 * out**2)).sum()


def local_loss(f, x):
    outs = f(x)
    return sum(curve(o) for o in (outs if isinstance(outs, tuple) else (outs,)))


def pairing(a, b):
    """Returns the real inner product."""
    return (a.conj() * b).real.sum() if a.is_complex() else (a * b).sum()


def difference(f, x, v, h=1e-5):
    return (total(f(x + h * v)) - total(f(x - h * v))) / (2 * h)


def gradient(f, x, create_graph=False):
    x = x if x.requires_grad else x.clone().requires_grad_()
    (g,) = torch.autograd.grad(
        local_loss(f, x), x, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return g, x


def close(a, b, what):
    assert abs(a - b) <= 1e-6 * (1 + abs(a)), (what, a, b)


def verify(f, shape, dtype=D, second=True):
    n, r = dist.get_world_size(), dist.get_rank()
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(r))
    g, _ = gradient(f, x)
    assert g.shape == x.shape and g.dtype == dtype
    u = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(50 + r))
    for q in {0, n - 1}:
        v = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(9))
        v = v if q == r else torch.zeros_like(v)
        want = difference(lambda x: local_loss(f, x), x, v)
        close(want, total(pairing(g, v)), f"gradient by rank {q}")
        _, tangent = torch.func.jvp(lambda x: local_loss(f, x), (x,), (v,))
        close(want, total(tangent), f"tangent by rank {q}")
    if not second:
        return
    v = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(70 + r))
    want = difference(lambda x: pairing(gradient(f, x)[0], u), x, v)
    with F.ordered() as chain:
        g, leaf = gradient(f, x, create_graph=True)
        product = chain.join(pairing(g, u))
        (hessian_u,) = torch.autograd.grad(product, leaf, allow_unused=True, materialize_grads=True)
    close(want, total(pairing(hessian_u, v)), "reverse over reverse")
    _, tangent = (
        torch.func.jvp(torch.func.grad(lambda x: local_loss(f, x)), (x,), (v,))
        if (not dtype.is_complex)
        else (None, None)
    )
    if tangent is not None:
        close(want, total(pairing(tangent, u)), "forward over reverse")


def check_all_reduce():
    verify(lambda x: F.all_reduce(x.sin()), (2, 3))
    verify(lambda x: F.all_reduce(x * 1j * x), (3,), torch.complex128)
    verify(lambda x: F.all_reduce(x, dist.ReduceOp.AVG), ())


def check_other_reductions():
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
        verify(lambda x, op=op: F.all_reduce(x * 2, op), (5,))
    last = dist.get_world_size() - 1
    verify(lambda x: F.reduce(x, last, dist.ReduceOp.MAX), (4,))
    x = torch.tensor([1.0, 2.0], requires_grad=True)  # equal on all: parts
    F.all_reduce(x, dist.ReduceOp.MAX).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    x = torch.tensor([0.0 if dist.get_rank() == 0 else 3.0], requires_grad=True)
    F.all_reduce(x, dist.ReduceOp.PRODUCT).sum().backward()
    n = dist.get_world_size()
    assert x.grad.item() == (n * 3.0 ** (n - 1) if dist.get_rank() == 0 or n == 1 else 0.0)
    counts = torch.tensor([dist.get_rank()])
    assert F.all_reduce(counts, dist.ReduceOp.MAX).item() == n - 1


def check_broadcast_and_reduce():
    last = dist.get_world_size() - 1
    verify(lambda x: F.broadcast(x.exp(), last), (2, 2))
    verify(lambda x: F.reduce(x.exp(), last), (2, 2))
    verify(lambda x: F.reduce(x, 0, dist.ReduceOp.AVG), (3,), torch.complex128)


def check_gathers():
    last = dist.get_world_size() - 1
    verify(lambda x: F.all_gather(x**2), (2, 3))
    verify(lambda x: F.gather(x**2, last), (3,))
    verify(lambda x: F.all_gather(x)[0], (3,), torch.complex128)
    n = dist.get_world_size()
    verify(lambda x: F._all_gather_base(torch.empty(2 * n, 3, dtype=D), x.T), (3, 2))


def check_scatters():
    n, last = dist.get_world_size(), dist.get_world_size() - 1
    like = torch.empty(2, dtype=D)
    verify(lambda x: F.scatter(list((x**2).unbind(0)), last), (n, 2))
    verify(lambda x: F.reduce_scatter(like, list((x**2).unbind(0))), (n, 2))
    verify(
        lambda x: F.reduce_scatter(like, list(x.unbind(0)), dist.ReduceOp.MIN), (n, 2), second=False
    )


def check_all_to_all():
    n, r = dist.get_world_size(), dist.get_rank()
    own = [torch.empty(q + 1, r + 1, dtype=D) for q in range(n)]

    def lists(x):
        parts = [(q + 1) * x[: r + 1, None] * torch.ones(q + 1, dtype=D) for q in range(n)]
        return F.all_to_all(own, parts)

    verify(lists, (n,))

    def rows(x):
        sizes = [q + 1 for q in range(n)]
        return F.all_to_all_single(
            torch.empty(n * (r + 1), 2, dtype=D), x.exp(), [r + 1] * n, sizes
        )

    verify(rows, (n * (n + 1) // 2, 2))
    verify(lambda x: F.all_to_all_single(x, x), (n, 2), torch.complex128)


def check_messages():
    n, r = dist.get_world_size(), dist.get_rank()
    up, down = (r + 1) % n, (r - 1) % n
    verify(lambda x: F.sendrecv(x.sin(), up, down), (3,))
    verify(lambda x: x + F.sendrecv(x, up if r < n - 1 else None, down if r else None), (3,))
    verify(lambda x: F.exchange([(x, up), (x**2, down)], [(x, up), (x, down)]), (2,))
    verify(lambda x: F.sendrecv(x, up, down, tag=5), (2,), torch.complex128)
    if n == 1:
        return

    def relay(x):  # each pair by blocking calls
        if r == n - 1:
            return F.recv(x, 0)
        return F.depends_on(x, F.send(x**2, n - 1)) if r == 0 else x

    verify(relay, (3,))


def diffused(rows, rank, n):
    """Computes two steps of diffusion over rows that `n` ranks share."""
    for _ in range(2):
        above = rank - 1 if rank > 0 else None
        below = rank + 1 if rank < n - 1 else None
        first = F.sendrecv(rows[-1:], below, above)
        last = F.sendrecv(rows[:1], above, below)
        tall = torch.cat([first, rows, last])
        rows = rows + 0.2 * (tall[:-2] + tall[2:] - 2 * rows) * rows
    return rows


def check_second_derivatives_at_the_ends_of_a_row():
    n, me = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    whole, own = torch.rand(8, 3, dtype=D), slice(me * 8 // n, (me + 1) * 8 // n)

    def loss(x, ranks):
        return (diffused(x, me if ranks > 1 else 0, ranks) ** 4).sum()

    def by_grad(x, ranks):
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(loss(x, ranks), x, create_graph=True)
        return torch.autograd.grad((g**2).sum(), x)[0]

    def by_backward(x, ranks):
        x = x.clone().requires_grad_()
        loss(x, ranks).backward(create_graph=True)
        g, x.grad = x.grad, None
        (g**2).sum().backward()
        return x.grad

    def by_func(x, ranks):
        grad = torch.func.grad
        return grad(lambda x: (grad(lambda y: loss(y, ranks))(x) ** 2).sum())(x)

    want = by_grad(whole, 1)
    for f in (by_grad, by_backward, by_func):
        torch.testing.assert_close(f(whole[own].clone(), n), want[own])


def check_second_derivatives_where_one_loss_is_linear():
    """A rank with a constant gradient still takes part in the second derivatives of the others."""
    n, r = dist.get_world_size(), dist.get_rank()
    x = torch.tensor([1.0, 2.0], dtype=D) + r
    others = n * (n - 1) / 2
    maps = {
        F.all_reduce: lambda x: x * n + others - r * n,
        lambda x: sum(F.all_gather(x)): lambda x: x * n + others - r * n,
        lambda x: F.broadcast(x, n - 1): lambda x: x * 0 + (x + n - 1 - r) * (r == n - 1),
        lambda x: F.sendrecv(x, (r + 1) % n, (r - 1) % n): lambda x: x * (r == n - 1),
    }
    for f, seen in maps.items():

        def loss(x, f=f):
            return (f(x) ** 3).sum() if r == 0 else f(x).sum()

        leaf = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), leaf, create_graph=True)
        plain = x.clone().requires_grad_()  # the losses of all ranks, in one direction
        whole = seen(plain)
        (want,) = torch.autograd.grad(3 * whole.square().sum(), plain, create_graph=True)
        torch.testing.assert_close(h, want)
        torch.testing.assert_close(torch.func.hessian(loss)(x), torch.diag(want))

        def along(x, loss=loss):
            return torch.func.jvp(loss, (x,), (torch.ones_like(x),))[1]

        torch.testing.assert_close(torch.func.grad(along)(x), want)
        (third,) = torch.autograd.grad(h.sum(), leaf)
        (want,) = torch.autograd.grad(want.sum(), plain)
        torch.testing.assert_close(third, want)


def check_second_derivatives_of_a_pipeline():
    """The gradients that the adjoint of recv sends back can be differentiated again."""
    n, r = dist.get_world_size(), dist.get_rank()

    def loss(x):
        with F.ordered() as chain:
            h = x if r == 0 else F.recv(F.depends_on(torch.empty(3, dtype=D), x), r - 1) * x
            if r == n - 1:
                return h.sin().sum()
            F.send(h.sin(), r + 1)
            return chain.join((x * 0).sum())

    def grad(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(loss(x), x, create_graph=True)[0], x

    x, u, v = (
        torch.randn(3, dtype=D, generator=torch.Generator().manual_seed(i + r)) for i in (1, 20, 40)
    )
    want = difference(lambda x: pairing(grad(x)[0], u), x, v)
    g, leaf = grad(x)
    close(want, total(pairing(torch.autograd.grad(pairing(g, u), leaf)[0], v)), "pipeline")


def check_debug_mode_compares_messages():
    n, r = dist.get_world_size(), dist.get_rank()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        verify(lambda x: F.sendrecv(x, (r + 1) % n, (r - 1) % n), (2,))
        if n == 2:
            dtype = torch.float32 if r else torch.float64
            like = torch.empty(1 if dtype is torch.float64 else 2, dtype=dtype)
            try:
                F.sendrecv(like, 1 - r, 1 - r)
            except dist.DistBackendError as error:
                assert f"and rank {1 - r} sends" in str(error), error
            else:
                raise AssertionError("no error")
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def check_results_unused_elsewhere():
    """Only rank 0 uses the results; with ordered() the other ranks still take part in backward."""
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        with F.ordered() as chain:
            y = F.all_reduce(x * 2)
            F.broadcast(y * 3, 0)
            loss = y.sum() if dist.get_rank() == 0 else torch.zeros(())
            chain.join(loss).backward()
    assert x.grad.tolist() == [4.0, 4.0]
    with F.ordered() as chain:
        y = F.all_gather(x)[0]
        if dist.get_rank() == 0:
            y.sum().backward()
        else:
            chain.backward()
    assert x.grad.tolist() == ([5.0, 5.0] if dist.get_rank() == 0 else [4.0, 4.0])


def check_pipeline():
    """In a pipeline, each stage sends its result to the next; only the last one has a loss."""
    n, r = dist.get_world_size(), dist.get_rank()
    weight = torch.tensor(r + 2.0, requires_grad=True)
    with F.ordered() as chain:
        h = torch.ones(3) if r == 0 else F.recv(torch.empty(3), r - 1)
        h = h * weight
        if r < n - 1:
            F.send(h, r + 1)
            chain.backward()
        else:
            h.sum().backward()
    product = 1.0
    for q in range(n):
        product *= q + 2.0
    assert abs(weight.grad.item() - 3 * product / (r + 2.0)) < 1e-4


def check_lost_token_warns():
    import warnings

    n, r = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if r == 0:
            F.send(x, 1)
        elif r == 1:
            F.recv(x, 0)
    assert len(found) == (r == 0), [str(w.message) for w in found]
    with torch.no_grad():
        if r == 0:
            F.send(x, 1)
        elif r == 1:
            assert not F.recv(x, 0).requires_grad


def check_backward_order():
    """Backward runs communication in the opposite order, also across branches."""
    seen = []
    x = torch.ones(1, requires_grad=True)
    outs = [F.all_reduce(x * k) for k in range(4)]
    for k, out in enumerate(outs):
        out.register_hook(lambda g, k=k: seen.append(k))
    order = [2, 0, 3, 1] if dist.get_rank() else [1, 3, 0, 2]
    sum(outs[k] for k in order).sum().backward()
    assert seen == [3, 2, 1, 0]


def check_model_parallel_layers():
    """A layer split by columns and one split by rows have the gradients of a single process."""
    n, r = dist.get_world_size(), dist.get_rank()
    generator = torch.Generator().manual_seed(3)
    first, second, x = (
        torch.randn(s, generator=generator, dtype=D) for s in ((8, 5), (3, 8), (6, 5))
    )
    for leaf in (first, second, x):
        leaf.requires_grad_()
    ((x @ first.T).tanh() @ second.T).square().mean().backward()

    rows = slice(8 * r // n, 8 * (r + 1) // n)
    mine = first.detach()[rows].clone().requires_grad_()
    ours = second.detach()[:, rows].clone().requires_grad_()
    given = x.detach().clone().requires_grad_()
    h = (F.broadcast(given, 0) @ mine.T).tanh()
    y = F.all_reduce(h @ ours.T)
    (y.square().mean() / n).backward()  # all ranks have this loss: a part of it each
    assert torch.allclose(mine.grad, first.grad[rows])
    assert torch.allclose(ours.grad, second.grad[:, rows])
    assert torch.allclose(given.grad, x.grad if r == 0 else torch.zeros_like(x))


def check_loss_on_one_rank_alone():
    """The parts of a batch are gathered on one rank, which alone has a loss."""
    n, r = dist.get_world_size(), dist.get_rank()
    weight = torch.full((2,), 2.0, requires_grad=True)
    with F.ordered() as chain:
        shared = F.broadcast(weight, 0)
        parts = F.gather(shared * (r + 1), 0)
        if r == 0:
            torch.stack(parts).sum().backward()
        else:
            chain.backward()
    assert weight.grad.tolist() == ([n * (n + 1) / 2] * 2 if r == 0 else [0.0, 0.0])


def check_vmap():
    n, r = dist.get_world_size(), dist.get_rank()
    rows = torch.randn(4, n, 2, generator=torch.Generator().manual_seed(r), dtype=D)
    last = n - 1

    def everything(x):
        return torch.cat(
            [
                F.all_reduce(x).reshape(-1),
                F.all_reduce(x, dist.ReduceOp.MAX).reshape(-1),
                F.broadcast(x, last).reshape(-1),
                F.reduce(x, 0).reshape(-1),
                torch.cat(F.all_gather(x[0])),
                torch.cat(F.gather(x[0], last)),
                F.scatter(list(x.unbind(0)), 0),
                F.reduce_scatter(x[0], list(x.unbind(0))),
                F.all_to_all_single(x, x).reshape(-1),
                torch.cat(F.all_to_all(list(x.unbind(0)), list(x.unbind(0)))),
                F.sendrecv(x, (r + 1) % n, (r - 1) % n).reshape(-1),
            ]
        )

    for f in (everything, torch.func.grad(lambda x: curve(everything(x)))):
        one_by_one = torch.stack([f(x) for x in rows])
        assert torch.allclose(torch.func.vmap(f)(rows), one_by_one)
        moved = rows.movedim(0, 2)
        assert torch.allclose(torch.func.vmap(f, in_dims=2)(moved), one_by_one)
    shared = torch.func.vmap(lambda k: F.all_reduce(rows[0] * k))(torch.ones(3, dtype=D))
    assert torch.allclose(shared[2], F.all_reduce(rows[0]))


def check_transforms():
    """Hessian and Jacobian of a function that communicates are the same on all ranks."""
    x = torch.randn(3, generator=torch.Generator().manual_seed(dist.get_rank()), dtype=D)

    def energy(x):
        return (F.all_reduce(x.sin()) ** 2).sum()

    n = dist.get_world_size()
    whole = F.all_reduce(x.sin()).detach()
    own = torch.diag(n * (2 * x.cos() ** 2 - 2 * whole * x.sin()))
    by_func = torch.func.hessian(energy)(x)
    # Each rank's i-th direction is taken at once: the other ranks' cosines are in it, too.
    others = torch.diag(n * 2 * x.cos() * (F.all_reduce(x.cos()).detach() - x.cos()))
    assert torch.allclose(by_func, own + others)
    assert not torch.func.grad(energy)(x).requires_grad
    assert not torch.func.jvp(energy, (x,), (x,))[1].requires_grad

    def sent_by_first(x):  # the others have nothing to give but a template
        mine = x if dist.get_rank() == 0 else F.depends_on(torch.zeros(3, dtype=D), x)
        return (F.broadcast(mine, 0) ** 2).sum()

    gradient = torch.func.grad(sent_by_first)(x)
    want = 2 * n * x if dist.get_rank() == 0 else torch.zeros_like(x)
    assert torch.allclose(gradient, want)
    jac = torch.func.jacfwd(lambda x: F.all_reduce(x) * 1.0)(x)
    assert torch.allclose(jac, n * torch.eye(3, dtype=D))


def check_groups():
    n, r = dist.get_world_size(), dist.get_rank()
    even = dist.new_group([q for q in range(n) if q % 2 == 0])
    if r % 2:
        try:
            F.all_reduce(torch.ones(1), group=even)
        except ValueError as error:
            assert "not a member" in str(error)
        else:
            raise AssertionError("no error")
        return
    root = (n - 1) // 2 * 2
    x = torch.ones(2, requires_grad=True)
    y = F.broadcast(x * (r + 1), root, group=even)
    assert y.tolist() == [root + 1.0] * 2
    y.sum().backward()
    count = dist.get_world_size(even)
    assert x.grad.tolist() == ([count * (root + 1.0)] * 2 if r == root else [0.0] * 2)


def check_dtypes_and_forms():
    n = dist.get_world_size()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.complex64):
        x = torch.ones(3, 2, dtype=dtype, requires_grad=True)
        y = F.all_reduce(x.T)
        assert y.shape == (2, 3) and y.dtype == dtype
        y.sum().abs().backward()
        assert x.grad.dtype == dtype and x.grad.real.tolist() == [[float(n)] * 2] * 3
    empty = torch.empty(0, 2, requires_grad=True)
    assert F.all_reduce(empty).shape == (0, 2)
    wide = torch.ones(1, requires_grad=True).expand(4)
    F.all_gather(wide)[-1].sum().backward()
    for bad, error in (
        (lambda: F.all_reduce([1.0]), TypeError),
        (lambda: F.all_reduce(torch.ones(2), dist.ReduceOp.BAND), ValueError),
        (lambda: F.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX), ValueError),
        (lambda: F.all_to_all([], [torch.ones(1)] * n), ValueError),
        (lambda: F.all_to_all_single(torch.ones(n), torch.ones(n), [2] * n), ValueError),
        (lambda: F.reduce_scatter(torch.ones(3), [torch.ones(2)] * n), ValueError),
        (lambda: F.send(torch.ones(1), n), ValueError),
        (lambda: F.recv(torch.ones(1), 0, tag=1 << 40), ValueError),
        (lambda: F.exchange([(torch.ones(1), 0), (torch.ones(1, dtype=torch.int64), 0)], []),
         TypeError),
        (lambda: F.depends_on(torch.ones(1, dtype=torch.int64)), TypeError),
    ):  # fmt: skip
        try:
            bad()
        except error:
            pass
        else:
            raise AssertionError(bad)


checks.run(globals(), sys.argv[1:])
