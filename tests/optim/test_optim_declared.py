# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers are declared once: their rules, signatures, docs and the ops of their steps agree."""

import inspect
import re

import pytest
from optim_cases import OPTIMIZERS, Run

import cograd as torch
from cograd import _C, optim
from cograd.optim import _functional as F

RULES = {name: getattr(optim, name)._rule for name in OPTIMIZERS}
WITH_OP = [name for name, rule in RULES.items() if rule.op is not None]
RECORDS = {r["name"]: r for r in _C._op_table() if re.fullmatch(r"_\w+_step", r["name"])}


def options_of(kind):
    return [name for name in inspect.signature(kind).parameters if name != "params"]


def of_kind(record, *kinds):
    return [a["name"] for a in record["args"] if a["kind"] in kinds]


def test_every_op_of_a_step_has_its_optimizer():
    assert len(WITH_OP) > 10
    assert {RULES[name].op for name in WITH_OP} == set(RECORDS)


@pytest.mark.parametrize("name", WITH_OP)
def test_an_op_has_the_state_and_the_options_of_its_rule(name):
    rule, record = RULES[name], RECORDS[RULES[name].op]
    lists = of_kind(record, "Tensors")
    assert lists[:2] == ["params", "grads"]
    assert sorted(lists[2:]) == sorted(part.name for part in rule.state)
    assert [part.name for part in rule.columns] == lists[2:]
    options = of_kind(record, "Double", "Bool")
    own = [*options_of(getattr(optim, name)), *rule.later]
    for option, key in zip(options, rule.keys, strict=True):
        if isinstance(key, tuple):
            assert rule.parts[key[0]][key[1]] == option and key[0] in own
        else:
            assert key == option and option in own
    assert {a["name"] for a in record["args"] if a["mutated"]} == {"params", *lists[2:]}
    assert all(a["keyword_only"] for a in record["args"] if a["kind"] != "Tensors")
    assert not record["differentiable"] and record["internal"]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_speaks_of_options_that_exist(name):
    rule, kind = RULES[name], getattr(optim, name)
    options = options_of(kind)
    assert set(rule.checks) <= set(options)
    assert set(rule.parts) <= set(options)
    assert {part.when for part in rule.state} <= {"", *options}
    assert set(kind._later_options) <= {*options, "decoupled_weight_decay"}
    defaults = kind([torch.ones(2, 2, requires_grad=True)]).defaults
    order = rule.order.split() or options
    assert set(options) <= set(order) <= {*options, "decoupled_weight_decay"}
    assert [key for key in defaults if key in order] == order


@pytest.mark.parametrize("name", RULES)
def test_a_docstring_explains_every_parameter_once(name):
    doc = inspect.getdoc(getattr(optim, name))
    section = doc.partition("\nArgs:\n")[2].partition("\n\nRaises:\n")[0]
    assert re.findall(r"^    (\w+): \S", section, re.M) == [
        "params",
        *options_of(getattr(optim, name)),
    ]
    assert "\nRaises:\n    ValueError: " in doc
    assert max(map(len, doc.splitlines())) <= 100


@pytest.mark.parametrize("name", F.__all__)
def test_a_form_for_lists_explains_every_parameter_once(name):
    doc, form = inspect.getdoc(getattr(F, name)), getattr(F, name)
    section = doc.partition("\nArgs:\n")[2].partition("\n\nRaises:\n")[0]
    entries = re.findall(r"^    (\w[\w, \n]*):\s+\S", section, re.M)
    named = [n for entry in entries for n in re.split(r",\s+", entry)]
    assert sorted(named) == sorted(inspect.signature(form).parameters)


@pytest.mark.parametrize("name", WITH_OP)
def test_a_step_is_one_call_of_the_op(name):
    run = Run(torch, name, {})
    with torch.autograd.profiler.profile() as profile:
        run.step()
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts[RULES[name].op] == 1
    assert counts[f"{name}.step"] == 1


def lists_of(optimizer):
    """Returns copies of what the op of a step takes."""
    (group,), rule = optimizer.param_groups, optimizer._rule
    params = [p.detach().clone() for p in group["params"]]
    states = [optimizer.state[p] for p in group["params"]]
    columns = [
        [s[part.name].clone() for s in states] if part.active(group) else []
        for part in rule.columns
    ]
    values = [group[k[0]][k[1]] if isinstance(k, tuple) else group[k] for k in rule.keys]
    names = of_kind(RECORDS[rule.op], "Double", "Bool")
    grads = [p.grad.clone() for p in group["params"]]
    return [params, grads, *columns], dict(zip(names, values, strict=True))


@pytest.mark.parametrize("name", WITH_OP)
@pytest.mark.parametrize("last", [False, True])
def test_the_op_with_named_options_does_what_the_optimizer_does(name, last):
    run = Run(torch, name, OPTIMIZERS[name][-1 if last else 0])
    run.step()
    lists, options = lists_of(run.optimizer)
    op = getattr(_C._ops, run.optimizer._rule.op)
    run.optimizer.step()
    assert op(*lists, **options) is True
    for mine, param in zip(lists[0], run.params, strict=True):
        assert torch.equal(mine, param.detach())
    for part, column in zip(run.optimizer._rule.columns, lists[2:], strict=True):
        for mine, param in zip(column, run.params, strict=False):
            assert torch.equal(mine, run.optimizer.state[param][part.name])


def adam_call(**changed):
    one = {n: [torch.ones(3)] for n in ("params", "grads", "exp_avg", "exp_avg_sq")}
    call = {**one, "max_exp_avg_sq": [], "step": [torch.tensor(0.0)]}
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0}
    flags = dict.fromkeys(("amsgrad", "decoupled_weight_decay", "maximize"), False)
    return {**call, **options, **flags, **changed}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": []}, r"Adam.step\(\): a list has 0 tensors, expected one for each of the 1"),
        ({"grads": [torch.ones(3)] * 2}, "a list has 2 tensors, expected one"),
        ({"amsgrad": True}, "a list has 0 tensors"),
        ({"exp_avg": [torch.ones(1).expand(3)]}, "single memory location"),
    ],
)
def test_bad_calls_of_an_op_raise_before_anything_is_written(changed, message):
    call = adam_call(**changed)
    with pytest.raises(RuntimeError, match=message):
        _C._ops._adam_step(**call)
    assert call["params"][0].tolist() == [1.0] * 3
    assert all(t.item() == 0 for t in call["step"])


def test_an_op_leaves_what_it_cannot_update_to_the_formula():
    for other in (torch.ones(3, dtype=torch.float64), torch.ones(4), torch.ones(3).int()):
        call = adam_call(exp_avg=[other])
        assert _C._ops._adam_step(**call) is False
        assert call["params"][0].tolist() == [1.0] * 3 and call["step"][0].item() == 0

    def batched(x):
        call = adam_call(grads=[x])
        assert _C._ops._adam_step(**call) is False
        assert call["params"][0].tolist() == [1.0] * 3
        return x

    torch.func.vmap(batched)(torch.ones(2, 3))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        assert _C._ops._adam_step(**adam_call(grads=[dual])) is False


def test_created_buffers_of_sgd_are_named_by_position():
    params = [torch.ones(2) for _ in range(3)]
    grads, buffers = [torch.full((2,), 2.0) for _ in params], [torch.ones(2) for _ in params]
    options = {"lr": 0.5, "momentum": 0.5, "dampening": 0.0, "weight_decay": 0.0}
    options.update(nesterov=False, maximize=False)
    assert _C._ops._sgd_step(params, grads, buffers, created=[1], **options)
    assert [b[0].item() for b in buffers] == [2.5, 2.0, 2.5]
