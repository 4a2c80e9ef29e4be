# SPDX-License-Identifier: BSD-3-Clause
"""Texts of warnings that programs for torch filter, and variables that they set."""

import io
import sys
import warnings

import numpy as np
import pytest

import cograd as torch
from cograd.optim import SGD, lr_scheduler
from cograd.utils.checkpoint import checkpoint, checkpoint_sequential


def schedule():
    optimizer = SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    return optimizer, lr_scheduler.StepLR(optimizer, 1)


def step_first():
    schedule()[1].step()


def overridden():
    optimizer, s = schedule()
    optimizer.step = lambda *args: None
    s.step()


def with_epoch():
    optimizer, s = schedule()
    optimizer.step()
    s.step(3)


def plateau():
    lr_scheduler.ReduceLROnPlateau(schedule()[0]).step(1.0, epoch=2)


def read_only():
    array = np.ones(2)
    array.flags.writeable = False
    torch.from_numpy(array)


def no_use_reentrant():
    checkpoint(torch.sin, torch.ones(2, requires_grad=True))


def no_use_reentrant_sequential():
    checkpoint_sequential([torch.sin, torch.cos], 1, torch.ones(2, requires_grad=True))


FILTERS = [
    (step_first, r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"),
    (step_first, r".*how-to-adjust-learning-rate"),
    (overridden, r"Seems like `optimizer.step\(\)` has been overridden after .* scheduler"),
    (overridden, r".*how-to-adjust-learning-rate"),
    (with_epoch, r"The epoch parameter in `scheduler.step\(\)` was not necessary"),
    (plateau, r"The epoch parameter in `scheduler.step\(\)` was not necessary"),
    (read_only, r"The given NumPy array is not writable"),
    (no_use_reentrant, r"torch.utils.checkpoint: the use_reentrant parameter should be passed"),
    (no_use_reentrant_sequential, r"torch.utils.checkpoint: the use_reentrant parameter"),
]


@pytest.mark.parametrize(("run", "message"), FILTERS)
def test_filters_of_programs_match(run, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            run()
        warnings.filterwarnings("ignore", message=message)
        run()


def test_the_epoch_warning_can_be_imported():
    from cograd.optim.lr_scheduler import EPOCH_DEPRECATION_WARNING

    with pytest.warns(UserWarning) as caught:  # noqa: PT030
        with_epoch()
    assert str(caught[0].message) == EPOCH_DEPRECATION_WARNING


# ---------------------------------------------------------------------- load


class Unknown:
    value = 3


def archive():
    file = io.BytesIO()
    torch.save({"x": Unknown()}, file, format="torch")
    return io.BytesIO(file.getvalue())


NO, YES = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@pytest.fixture
def alias(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv(NO, raising=False)
    monkeypatch.delenv(YES, raising=False)


def test_no_weights_only(alias, monkeypatch):
    with pytest.raises(torch.serialization.FileError):
        torch.load(archive())
    for value in ("1", "true", "YES"):
        monkeypatch.setenv(NO, value)
        with pytest.warns(UserWarning, match=f"^Environment variable {NO} detected"):
            assert torch.load(archive())["x"].value == 3
    with pytest.raises(torch.serialization.FileError):
        torch.load(archive(), weights_only=True)
    assert torch.load(archive(), weights_only=False)["x"].value == 3
    monkeypatch.setenv(NO, "0")
    with pytest.raises(torch.serialization.FileError):
        torch.load(archive())


def test_weights_only(alias, monkeypatch):
    monkeypatch.setenv(YES, "1")
    with pytest.raises(torch.serialization.FileError):
        torch.load(archive(), weights_only=False)
    monkeypatch.setenv(NO, "1")
    with pytest.raises(RuntimeError, match="should be set, but both were set"):
        torch.load(archive())


def test_the_variables_count_under_the_alias_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv(NO, "1")
    with pytest.raises(torch.serialization.FileError):
        torch.load(archive())


# ---------------------------------------------------------------------- assert_allclose


def test_assert_allclose():
    text = r"`torch.testing.assert_allclose\(\)` is deprecated"
    with pytest.warns(FutureWarning, match=text):
        torch.testing.assert_allclose(torch.tensor([1.0, 2.0]), [1.00005, 2.0])
    with pytest.warns(FutureWarning, match=text):
        torch.testing.assert_allclose([1.0], torch.tensor([1.0], dtype=torch.float64))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_allclose(torch.tensor([1.0]), torch.tensor([1.001]))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="^told$"):
        torch.testing.assert_allclose([1.0], [2.0], msg="told")
    with pytest.warns(FutureWarning):
        torch.testing.assert_allclose([1.0], [1.5], rtol=0, atol=1)
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        torch.testing.assert_allclose([float("nan")], [float("nan")], equal_nan=False)
