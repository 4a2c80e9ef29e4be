# SPDX-License-Identifier: BSD-3-Clause
"""Shape, strides, offsets, contiguity, shared storage and version counters of tensors and views."""

import numpy as np
import pytest

import cograd as torch

F8 = torch.float64


def arange(*shape):
    return torch.arange(int(np.prod(shape)), dtype=F8).reshape(shape)


@pytest.mark.parametrize(
    "dtype,size",
    [
        (torch.bool, 1),
        (torch.uint8, 1),
        (torch.int8, 1),
        (torch.int16, 2),
        (torch.int32, 4),
        (torch.int64, 8),
        (torch.float16, 2),
        (torch.bfloat16, 2),
        (torch.float32, 4),
        (torch.float64, 8),
    ],
)
def test_sizes(dtype, size):
    t = torch.zeros(2, 3, dtype=dtype)
    assert t.element_size() == t.itemsize == size
    assert t.nbytes == 6 * size
    assert t.numel() == t.nelement() == torch.numel(t) == 6
    assert t.ndim == t.dim() == t.ndimension() == 2
    assert torch.zeros(()).numel() == 1 and torch.zeros(()).ndim == 0
    assert torch.zeros(3, 0).numel() == 0


def test_size_and_stride():
    t = torch.zeros(2, 3, 4)
    assert t.size() == t.shape == (2, 3, 4)
    assert isinstance(t.size(), torch.Size)
    assert t.size(0) == 2 and t.size(-1) == 4 and t.size(dim=1) == 3
    assert t.stride() == (12, 4, 1) and isinstance(t.stride(), tuple)
    assert t.stride(0) == 12 and t.stride(-1) == 1
    assert torch.zeros(2, 0, 3).stride() == (3, 3, 1)
    assert torch.zeros(()).stride() == () and torch.zeros(()).size() == ()
    for f in (t.size, t.stride):
        with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
            f(3)
        with pytest.raises(IndexError, match="-4"):
            f(-4)
    with pytest.raises(TypeError):
        t.size("0")


def test_attributes_are_read_only():
    t = torch.zeros(2)
    for name in ("dtype", "shape", "device", "is_leaf", "grad_fn"):
        with pytest.raises((AttributeError, RuntimeError)):
            setattr(t, name, None)


def test_misc_attributes():
    t = torch.zeros(2)
    assert t.device == torch.device("cpu")
    assert t.is_cuda is False and t.is_cpu is True
    assert t.layout == torch.strided and not t.is_sparse
    assert t.requires_grad is False and t.is_leaf is True and t.grad is None and t.grad_fn is None
    assert t.is_complex() is False
    assert torch.is_tensor(t) and not torch.is_tensor(np.zeros(2))
    assert t.get_device() == -1
    assert isinstance(t, torch.Tensor)


@pytest.mark.parametrize(
    "view,shape,stride,offset",
    [
        (lambda t: t[1], (3, 4), (4, 1), 12),
        (lambda t: t[:, 1], (2, 4), (12, 1), 4),
        (lambda t: t[..., 2], (2, 3), (12, 4), 2),
        (lambda t: t[:, 1:, ::2], (2, 2, 2), (12, 4, 2), 4),
        (lambda t: t[:, -2:, 1::3], (2, 2, 1), (12, 4, 3), 5),
        (lambda t: t[None], (1, 2, 3, 4), (24, 12, 4, 1), 0),
        (lambda t: t.transpose(0, 2), (4, 3, 2), (1, 4, 12), 0),
        (lambda t: t.permute(2, 0, 1), (4, 2, 3), (1, 12, 4), 0),
        (lambda t: t.permute((1, 0, -1)), (3, 2, 4), (4, 12, 1), 0),
        (lambda t: t.movedim(0, -1), (3, 4, 2), (4, 1, 12), 0),
        (lambda t: t.mT, (2, 4, 3), (12, 1, 4), 0),
        (lambda t: t.view(6, 4), (6, 4), (4, 1), 0),
        (lambda t: t.view(2, -1), (2, 12), (12, 1), 0),
        (lambda t: t.reshape(24), (24,), (1,), 0),
        (lambda t: t.flatten(1), (2, 12), (12, 1), 0),
        (lambda t: t.unflatten(2, (2, 2)), (2, 3, 2, 2), (12, 4, 2, 1), 0),
        (lambda t: t.unsqueeze(0), (1, 2, 3, 4), (24, 12, 4, 1), 0),
        (lambda t: t.unsqueeze(-1), (2, 3, 4, 1), (12, 4, 1, 1), 0),
        (lambda t: t.unsqueeze(1).squeeze(1), (2, 3, 4), (12, 4, 1), 0),
        (lambda t: t[:1].expand(5, 3, 4), (5, 3, 4), (0, 4, 1), 0),
        (lambda t: t.expand(2, 2, 3, 4), (2, 2, 3, 4), (0, 12, 4, 1), 0),
        (lambda t: t.narrow(1, 1, 2), (2, 2, 4), (12, 4, 1), 4),
        (lambda t: t.select(1, 2), (2, 4), (12, 1), 8),
        (lambda t: t.diagonal(0, 1, 2), (2, 3), (12, 5), 0),
        (lambda t: t.diagonal(1, 1, 2), (2, 3), (12, 5), 1),
        (lambda t: t.diagonal(-1, 1, 2), (2, 2), (12, 5), 4),
        (lambda t: t.as_strided((2, 2), (3, 5), 1), (2, 2), (3, 5), 1),
        (lambda t: t.split(2, 1)[1], (2, 1, 4), (12, 4, 1), 8),
        (lambda t: t.chunk(2, 2)[1], (2, 3, 2), (12, 4, 1), 2),
        (lambda t: t.unbind(1)[2], (2, 4), (12, 1), 8),
        (lambda t: t.detach(), (2, 3, 4), (12, 4, 1), 0),
        (lambda t: t.view_as(torch.zeros(4, 6)), (4, 6), (6, 1), 0),
    ],
)
def test_views_share_storage(view, shape, stride, offset):
    t = arange(2, 3, 4)
    v = view(t)
    assert v.shape == shape and v.stride() == stride and v.storage_offset() == offset
    assert v.data_ptr() == t.data_ptr() + 8 * offset
    want = np.lib.stride_tricks.as_strided(
        t.numpy().reshape(-1)[offset:], shape, [8 * s for s in stride]
    ).copy()
    np.testing.assert_array_equal(v.numpy(), want)
    version = t._version
    (v if 0 not in stride else v[0]).fill_(-1)
    assert t._version == v._version == version + 1
    assert (t == -1).sum().item() == np.unique(want).size or 0 in stride
    t.zero_()
    assert (v == 0).all().item()


def test_t_forms():
    t = arange(2, 3)
    for v in (t.t(), t.T, t.mT, torch.t(t)):
        assert v.shape == (3, 2) and v.stride() == (1, 3) and v.data_ptr() == t.data_ptr()
    assert arange(4).t().shape == (4,) and torch.zeros(()).t().shape == ()
    with pytest.raises(RuntimeError, match="<= 2 dimensions.* 3D"):
        arange(1, 2, 3).t()
    with pytest.raises(RuntimeError, match="1-D"):
        arange(4).mT


def test_T_of_other_ranks_warns():
    with pytest.warns(UserWarning, match="deprecated"):
        assert arange(2, 3, 4).T.shape == (4, 3, 2)


def test_contiguity():
    t = arange(2, 3, 4)
    assert t.is_contiguous() and t.contiguous() is t
    p = t.permute(2, 0, 1)
    assert not p.is_contiguous()
    c = p.contiguous()
    assert c.is_contiguous() and c.data_ptr() != t.data_ptr() and torch.equal(c, p)
    assert t[1].is_contiguous() and not t[:, 1].is_contiguous()
    assert torch.zeros(1, 5)[:, :1].is_contiguous(), "dims of size 1 do not count"
    assert torch.zeros(0, 3).t().is_contiguous(), "empty tensors are contiguous"
    assert torch.zeros(()).is_contiguous()
    assert not torch.zeros(3, 1).expand(3, 2).is_contiguous()
    assert torch.zeros(2, 3).t().clone().is_contiguous() is False
    assert p.clone(memory_format=torch.contiguous_format).is_contiguous()


def test_data_ptr():
    t = torch.zeros(4)
    assert isinstance(t.data_ptr(), int) and t.data_ptr() % 4 == 0 and t.data_ptr() != 0
    assert t[1:].data_ptr() == t.data_ptr() + 4
    assert t.clone().data_ptr() != t.data_ptr()
    assert t.data.data_ptr() == t.data_ptr()
    assert torch.zeros(0).data_ptr() == 0


def test_untyped_storage():
    t = torch.zeros(4)
    assert t.untyped_storage().data_ptr() == t[2:].untyped_storage().data_ptr()
    assert t.untyped_storage().nbytes() == 16


def test_is_set_to():
    t = torch.zeros(4)
    assert t.is_set_to(t.view(4)) and not t.is_set_to(t[1:])


# ---------------------------------------------------------------- view() and reshape()


@pytest.mark.parametrize(
    "make,shape,ok",
    [
        (lambda: arange(2, 3).t(), (6,), False),
        (lambda: arange(2, 3).t(), (3, 2), True),
        (lambda: arange(2, 3).t(), (3, 1, 2), True),
        (lambda: arange(4, 6)[:, ::2], (2, 2, 3), True),
        (lambda: arange(4, 6)[:, ::2], (12,), True),
        (lambda: arange(4, 6)[:, :3], (12,), False),
        (lambda: arange(4, 6)[:, :3], (4, 3, 1), True),
        (lambda: arange(4, 6)[::2].view(-1, 2, 3), (2, 6), True),
        (lambda: arange(3, 1).expand(3, 4), (3, 2, 2), True),
        (lambda: arange(3, 1).expand(3, 4), (12,), False),
        (lambda: arange(4)[::2], (2, 1), True),
        (lambda: torch.zeros(0, 3), (3, 0), True),
        (lambda: torch.zeros(()), (1, 1), True),
        (lambda: torch.zeros(1), (), True),
    ],
)
def test_view_rules(make, shape, ok):
    t = make()
    want = t.numpy().reshape(shape)
    if ok:
        v = t.view(shape)
        assert v.data_ptr() == t.data_ptr()
        np.testing.assert_array_equal(v.numpy(), want)
    else:
        with pytest.raises(RuntimeError, match=r"Use \.reshape\(\.\.\.\) instead"):
            t.view(shape)
        r = t.reshape(shape)
        assert r.data_ptr() != t.data_ptr()
    np.testing.assert_array_equal(t.reshape(shape).numpy(), want)


def test_view_forms():
    t = arange(2, 6)
    assert t.view(3, 4).shape == t.view((3, 4)).shape == t.view([3, 4]).shape == (3, 4)
    assert t.view(torch.Size([3, 4])).shape == (3, 4)
    assert t.view(-1).shape == (12,) and t.view(4, -1).shape == (4, 3)
    assert t.reshape(-1, 2).shape == (6, 2) and torch.reshape(t, (3, -1)).shape == (3, 4)
    assert t.reshape_as(torch.zeros(4, 3)).shape == (4, 3)
    assert torch.zeros(0, 3).view(-1).shape == (0,)
    assert torch.zeros(0, 3).reshape(5, 0).shape == (5, 0)


@pytest.mark.parametrize("name", ["view", "reshape"])
@pytest.mark.parametrize(
    "shape,match",
    [
        ((4,), r"shape '\[4\]' is invalid for input of size 6"),
        ((-1, 4), r"shape '\[-1, 4\]' is invalid for input of size 6"),
        ((-1, -1), "only one dimension can be inferred"),
        ((-2, 3), "invalid shape dimension -2"),
        ((0, 6), "is invalid for input of size 6"),
        ((), "is invalid for input of size 6"),
    ],
)
def test_view_errors(name, shape, match):
    with pytest.raises(RuntimeError, match=match):
        getattr(arange(2, 3), name)(shape)


def test_view_ambiguous_minus_one():
    with pytest.raises(RuntimeError, match="ambiguous"):
        torch.zeros(0).view(-1, 0)


def test_view_as_dtype():
    t = torch.tensor([1.0, -2.0])
    assert t.view(torch.int32).tolist() == np.array([1, -2], np.float32).view(np.int32).tolist()
    assert t.view(torch.int32).data_ptr() == t.data_ptr()
    assert torch.zeros(2, 4, dtype=torch.float32).view(torch.float64).shape == (2, 2)
    assert torch.zeros(2, 4, dtype=torch.float32).view(torch.uint8).shape == (2, 16)


# ---------------------------------------------------------------- versions


def test_version_counter():
    t = torch.zeros(4)
    assert t._version == 0
    t.add_(1)
    assert t._version == 1
    t[1:].mul_(2)
    assert t._version == 2
    v = t.view(2, 2)
    v[0] = 3
    assert t._version == v._version == 3
    t += 1
    t[t > 0] = 0
    assert t._version == 5
    t.clone().add_(1)
    _ = t + 1
    assert t._version == 5
    assert t.detach()._version == 5
    t.detach().add_(1)
    assert t._version == 6
    assert t.clone()._version == 0


def test_data_has_its_own_version():
    t = torch.zeros(2)
    t.data.add_(1)
    assert t.tolist() == [1, 1] and t._version == 0


def test_numpy_writes_do_not_bump():
    t = torch.zeros(2)
    t.numpy()[0] = 5
    assert t.tolist() == [5, 0] and t._version == 0


def test_data_setter():
    t = torch.zeros(2, requires_grad=True)
    t.data = torch.ones(3)
    assert t.tolist() == [1, 1, 1] and t.requires_grad
    t.data.uniform_(-0.1, 0.1)
    assert t.abs().max().item() <= 0.1
    with pytest.raises(TypeError):
        t.data = [1]


# ---------------------------------------------------------------- resize, set, as_strided


def test_resize():
    t = torch.arange(4)
    assert t.resize_(2, 2) is t and t.tolist() == [[0, 1], [2, 3]]
    t.resize_(2)
    assert t.tolist() == [0, 1]
    t.resize_((4, 2))
    assert t.shape == (4, 2) and t.reshape(-1)[:4].tolist() == [0, 1, 2, 3]


def test_as_strided_bounds():
    t = torch.arange(4)
    assert t.as_strided((2, 2), (2, 1)).tolist() == [[0, 1], [2, 3]]
    assert torch.as_strided(t, (3,), (0,), 2).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        t.as_strided((3, 2), (2, 1))
    with pytest.raises(RuntimeError, match="[Nn]egative strides"):
        t.as_strided((2,), (-1,), 3)
    with pytest.raises(RuntimeError):
        t.as_strided((2,), (1, 1))
    with pytest.raises(RuntimeError):
        t.as_strided((2,), (1,), -1)


def test_detach_shares_and_stops():
    w = torch.ones(2, requires_grad=True)
    d = (w * 2).detach()
    assert not d.requires_grad and d.is_leaf and d.grad_fn is None
    e = w.detach()
    e[0] = 7
    assert w.tolist() == [7, 1]
    x = w * 2
    assert x.detach_() is x and x.is_leaf and not x.requires_grad


def test_volatile_warns_and_does_nothing():
    t = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="volatile was removed .*is always False"):
        assert t.volatile is False
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        t.volatile = True
    assert t.requires_grad and (t * 2).requires_grad


def test_warn_always_is_a_flag():
    assert torch.is_warn_always_enabled() is False
    torch.set_warn_always(True)
    try:
        assert torch.is_warn_always_enabled() is True
    finally:
        torch.set_warn_always(False)
    with pytest.raises(TypeError, match="expected a bool, but got int"):
        torch.set_warn_always(1)
    assert torch.is_warn_always_enabled() is False
