# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers and schedules compared with recorded results of torch and with an installed torch."""

import json
import warnings

import numpy as np
import optim_cases
import pytest
from optim_cases import CASES, LOOSE, Run, ScheduleRun, label

import cograd

TRAJECTORIES = optim_cases.recorded("optimizers.jsonl")
RATES = optim_cases.recorded("schedules.jsonl")
DTYPES = {
    "float32": 1e-4,
    "float64": 1e-11,
    "bfloat16": 0.3,
    "complex64": 1e-4,
    "complex128": 1e-11,
}
REAL_ONLY = ("Adafactor", "Muon", "LBFGS")


def case_id(case):
    return label(case).replace(" {}", "")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_recorded_trajectory(case):
    run = Run(cograd, *case)
    entry = TRAJECTORIES[label(case)]
    tolerance = LOOSE.get(case[0], 1e-8)
    np.testing.assert_allclose(run.trajectory(), entry["values"], rtol=tolerance, atol=tolerance)
    assert run.kinds() == entry["state"]
    assert repr(run.optimizer) == entry["repr"]


@pytest.mark.parametrize("name", RATES)
def test_recorded_rates(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ScheduleRun(cograd, name)
        np.testing.assert_array_equal(run.rates()[::4], RATES[name]["rates"])
    assert sorted(optim_cases.saved_keys(run)) == RATES[name]["keys"]


@pytest.mark.parametrize("name", RATES)
def test_schedule_continues_from_its_state(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, other = ScheduleRun(cograd, name), ScheduleRun(cograd, name)
        run.rates(33)
        saved = json.loads(json.dumps(run.schedule.state_dict()))
        if "_scale_fn_custom" not in saved and "milestones" not in saved:
            other.schedule.load_state_dict(saved)
        else:
            other.schedule.load_state_dict(run.schedule.state_dict())
        other.optimizer.load_state_dict(run.optimizer.state_dict())
        other.epoch = run.epoch
        assert other.rates(30) == run.rates(30)


@pytest.mark.parametrize("name", RATES)
def test_a_rate_that_is_a_tensor_stays_that_tensor(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ScheduleRun(cograd, name, tensor_lr=True)
        held = [group["lr"] for group in run.optimizer.param_groups]
        rates = np.array(run.rates(60))
    assert [group["lr"] for group in run.optimizer.param_groups] == held
    assert all(group["lr"] is tensor for group, tensor in zip(run.optimizer.param_groups, held))
    if "ReduceLROnPlateau" not in name:  # it compares values that rounding has changed
        np.testing.assert_allclose(rates[::4], RATES[name]["rates"][:15], rtol=2e-5, atol=1e-9)


@pytest.mark.needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_trajectory_beside_torch(case, dtype):
    import torch

    if dtype.startswith("complex") and case[0] in REAL_ONLY:
        pytest.skip("for real parameters")
    if case[0] == "LBFGS" and dtype == "bfloat16":
        pytest.skip("a line search in bfloat16 is chaotic")
    theirs, mine = Run(torch, *case, dtype), Run(cograd, *case, dtype)
    tolerance = LOOSE.get(case[0], DTYPES[dtype])
    if case[0] == "LBFGS" or dtype == "bfloat16":  # rounding changes where a search ends
        tolerance *= 10
    np.testing.assert_allclose(
        mine.trajectory(), theirs.trajectory(), rtol=tolerance, atol=tolerance
    )
    if case[0] != "LBFGS":  # LBFGS keeps numbers or tensors, depending on its search
        assert mine.kinds() == theirs.kinds()


@pytest.mark.needs_torch
@pytest.mark.parametrize("back", [False, True], ids=["from torch", "to torch"])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_state_goes_both_ways(case, back):
    import torch

    first, second = (cograd, torch) if back else (torch, cograd)
    run, other = Run(first, *case), Run(second, *case)
    run.trajectory(7)
    saved = optim_cases.plain(run.optimizer.state_dict())
    for p, value in zip(other.params, run.params):
        p.data = second.tensor(value.detach().numpy().copy())
    other.done = run.done
    other.optimizer.load_state_dict(optim_cases.tensors(second, saved))
    # ASGD's eta becomes a double when it is loaded.
    tolerance = LOOSE.get(case[0], 1e-7 if case[0] == "ASGD" else 1e-9)
    np.testing.assert_allclose(
        other.trajectory(7), run.trajectory(7), rtol=tolerance, atol=tolerance
    )


@pytest.mark.needs_torch
@pytest.mark.parametrize("tensor_lr", [False, True])
@pytest.mark.parametrize("name", RATES)
def test_rates_beside_torch(name, tensor_lr):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ScheduleRun(torch, name, tensor_lr)
        mine = ScheduleRun(cograd, name, tensor_lr)
        assert mine.rates() == theirs.rates()
