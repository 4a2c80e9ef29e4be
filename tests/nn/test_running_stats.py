# SPDX-License-Identifier: BSD-3-Clause
"""Running statistics and other buffers that modules write, under transforms."""

import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd import nn
from cograd.autograd import forward_ad
from cograd.func import functional_call, grad, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

F8 = torch.float64
NORMS = {
    "batch": lambda x, m, v: F.batch_norm(x, m, v, training=True),
    "instance": lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=True),
}


def draw(*shape):
    return torch.randn(*shape, dtype=F8)


def statistics(*shape):
    return draw(*shape), torch.rand(*shape, dtype=F8) + 0.5


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shared_input", [False, True])
def test_running_statistics_of_each_sample(name, shared_input):
    norm = NORMS[name]
    x, (mean, var) = draw(2, 4, 3, 5), statistics(2, 3)
    each = [(mean[i].clone(), var[i].clone()) for i in range(2)]
    want = [norm(x[0 if shared_input else i], *each[i]) for i in range(2)]
    in_dims = (None if shared_input else 0, 0, 0)
    got = vmap(norm, in_dims=in_dims)(x[0] if shared_input else x, mean, var)
    torch.testing.assert_close(got, torch.stack(want))
    torch.testing.assert_close(mean, torch.stack([m for m, _ in each]))
    torch.testing.assert_close(var, torch.stack([v for _, v in each]))


@pytest.mark.parametrize("name", NORMS)
def test_running_statistics_along_another_dim_and_of_nested_vmaps(name):
    norm = NORMS[name]
    x, (mean, var) = draw(2, 4, 3, 5), statistics(3, 2)
    want = [norm(x[i], mean[:, i].clone(), var[:, i].clone()) for i in range(2)]
    after, _ = mean[:, 0].clone(), norm(x[0], first := mean[:, 0].clone(), var[:, 0].clone())
    assert not torch.equal(after, first)
    torch.testing.assert_close(vmap(norm, in_dims=(0, 1, 1))(x, mean, var), torch.stack(want))
    torch.testing.assert_close(mean[:, 0], first)  # torch loses this write
    x, (mean, var) = draw(2, 2, 4, 3, 5), statistics(2, 2, 3)
    one = mean[1, 0].clone()
    want = norm(x[1, 0], one, var[1, 0].clone())
    torch.testing.assert_close(vmap(vmap(norm))(x, mean, var)[1, 0], want)
    torch.testing.assert_close(mean[1, 0], one)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("which", ["mean", "var"])
def test_a_statistic_that_samples_share_is_not_written(name, which):
    norm = NORMS[name]
    x, (mean, var) = draw(2, 4, 3, 5), statistics(2, 3)
    values = {"mean": mean[0].clone(), "var": var[0].clone()}
    kept = values[which].clone()
    other = {"mean": var, "var": mean}[which]
    before = other.clone()

    def call(x, own):
        m, v = (values["mean"], own) if which == "mean" else (own, values["var"])
        return norm(x, m, v)

    with pytest.raises(RuntimeError, match=f"each sample of a vmap, but running_{which}"):
        vmap(call)(x, other)
    assert torch.equal(values[which], kept)
    assert torch.equal(other, before)


def test_an_ensemble_of_batch_norms_keeps_the_statistics_of_each():
    models = [nn.BatchNorm1d(3).double() for _ in range(2)]
    x = draw(2, 4, 3)
    params, buffers = stack_module_state(models)

    def loss(params, buffers, x):
        return functional_call(models[0], (params, buffers), (x,)).pow(3).sum()

    grads = vmap(grad(loss))(params, buffers, x)
    for i, model in enumerate(models):
        model(x[i]).pow(3).sum().backward()
        torch.testing.assert_close(grads["weight"][i], model.weight.grad)
        torch.testing.assert_close(buffers["running_mean"][i], model.running_mean)
        torch.testing.assert_close(buffers["running_var"][i], model.running_var)
        assert int(buffers["num_batches_tracked"][i]) == 1


@pytest.mark.parametrize("name", ["batch", "instance"])
def test_an_ensemble_on_one_input_shares_its_statistics(name):
    def norm(x, m, v, w, b):
        if name == "batch":
            return F.batch_norm(x, m, v, w, b, training=True)
        return F.instance_norm(x, m, v, w, b, use_input_stats=True)

    x, w, b = draw(4, 3, 5), draw(2, 3), draw(2, 3)
    (mean, var) = statistics(3)
    kept = mean.clone(), var.clone()
    want = torch.stack([norm(x, mean.clone(), var.clone(), *wb) for wb in zip(w, b)])
    norm(x, *kept, w[0], b[0])
    got = vmap(lambda w, b: norm(x, mean, var, w, b))(w, b)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close((mean, var), kept)
    grads = vmap(grad(lambda w: norm(x, mean, var, w, b[0]).square().sum()))(w)
    each = [grad(lambda w: norm(x, mean, var, w, b[0]).square().sum())(row) for row in w]
    torch.testing.assert_close(grads, torch.stack(each))


def spectral(parametrized):
    layer = nn.Linear(3, 4).double()
    utils = nn.utils.parametrizations if parametrized else nn.utils
    return utils.spectral_norm(layer)


WRITERS = {
    "spectral_norm": lambda: spectral(True),
    "older spectral_norm": lambda: spectral(False),
    "instance_norm": lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True).double(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_modules_that_write_their_buffers_run_inside_of_transforms(name):
    torch.manual_seed(2)
    x = draw(2, 3) if "spectral" in name else draw(2, 3, 5)

    def fresh():
        torch.manual_seed(3)
        return WRITERS[name]()

    plain = fresh()
    (plain(x) ** 3).sum().backward()
    want = {k: p.grad for k, p in plain.named_parameters()}

    def run(transform):
        module = fresh()
        params = {k: p.detach() for k, p in module.named_parameters()}
        result = transform(lambda p: (functional_call(module, p, (x,)) ** 3).sum(), params)
        for key, buffer in module.named_buffers():
            torch.testing.assert_close(buffer, dict(plain.named_buffers())[key])
        return result

    for transform in (grad, jacrev, jacfwd):
        got = run(lambda f, p, transform=transform: transform(f)(p))
        for key, value in want.items():
            torch.testing.assert_close(got[key], value)
    got = run(lambda f, p: vjp(f, p)[1](torch.ones((), dtype=F8))[0])
    for key, value in want.items():
        torch.testing.assert_close(got[key], value)
    tangents = {k: torch.ones_like(g) for k, g in want.items()}
    _, tangent = run(lambda f, p: jvp(f, (p,), (tangents,)))
    torch.testing.assert_close(tangent, sum(g.sum() for g in want.values()))


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_a_forward_gradient_of_a_running_statistic_raises(norm, which, training):
    args = [draw(2, 3, 5), *statistics(3)]
    with forward_ad.dual_level():
        args[which] = forward_ad.make_dual(args[which], torch.ones(3, dtype=F8))
        option = {"training" if norm is F.batch_norm else "use_input_stats": training}
        with pytest.raises(RuntimeError, match="has a forward gradient"):
            norm(*args, **option)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_keeps_channels_last(training):
    for dims, last in ((2, torch.channels_last), (3, torch.channels_last_3d)):
        x = draw(2, 3, *(4,) * dims)
        y = x.contiguous(memory_format=last).requires_grad_()
        out = F.batch_norm(y, *statistics(3), training=training)
        (slope,) = torch.autograd.grad(out.pow(3).sum(), y)
        assert out.is_contiguous(memory_format=last)
        assert slope.is_contiguous(memory_format=last)
        assert F.group_norm(y, 3).is_contiguous(memory_format=last)
        torch.testing.assert_close(F.group_norm(y, 3), F.group_norm(x, 3))
        torch.testing.assert_close(
            F.batch_norm(y, None, None, training=True), F.batch_norm(x, None, None, training=True)
        )


def test_batch_norm_of_an_input_without_elements():
    mean, var = statistics(3)
    kept = mean.clone()
    x = torch.zeros(0, dtype=F8, requires_grad=True)
    out = F.batch_norm(x, mean, var, training=True)
    assert out.shape == (0,)
    out.sum().backward()
    assert x.grad.shape == (0,)
    assert torch.equal(mean, kept)
    assert torch.batch_norm(
        torch.zeros(0, 3), None, None, None, None, False, 0.1, 1e-5, False
    ).shape == (0, 3)
