# SPDX-License-Identifier: BSD-3-Clause
"""Runs a fixed sample of the grid; checks that everything public is a subject.

`python tests/pairs --cell 'CELL'` runs one cell again, and `make pairs` runs the whole grid.
"""

import pytest
from op_table import TABLE, samples_of
from optim_cases import OPTIMIZERS

import cograd as torch
from pairs import compare, grid, rows
from pairs.contexts import Context, all_contexts
from pairs.measures import all_measures
from pairs.sample import ordinary_cells
from pairs.subjects import ModuleRow, all_subjects

CHUNKS = 48  # test items; each has every 48th subject, so that all take about as long
WITHOUT_STEPS = {"SparseAdam"}  # it needs sparse gradients: tests/sparse steps it


def public_classes(package, base):
    found = {n: getattr(package, n) for n in dir(package)}
    return {
        n for n, c in found.items() if isinstance(c, type) and issubclass(c, base) and c is not base
    }


def test_every_module_is_tried():
    named = {c for s in all_subjects().values() if isinstance(s, ModuleRow) for c in s.classes}
    missing = public_classes(torch.nn, torch.nn.Module) - named - rows.WITHOUT_ROWS
    assert not missing, f"add rows of {missing} to tests/nn_rows.py or tests/pairs/rows.py"


def test_every_op_is_tried():
    named = {s.op for s in all_subjects().values() if s.kind == "op"}
    missing = [r["name"] for r in TABLE if r["differentiable"] and r["name"] not in named]
    assert not [n for n in missing if any(samples_of(r) for r in TABLE if r["name"] == n)]
    reasons = [r for r in TABLE if r["name"] in missing and r["differentiable"]]
    assert all(r["samples"].startswith("none:") for r in reasons), f"add samples to {missing}"


def test_every_optimizer_is_tried():
    missing = public_classes(torch.optim, torch.optim.Optimizer) - set(OPTIMIZERS) - WITHOUT_STEPS
    assert not missing, f"add options of {missing} to OPTIMIZERS in tests/optim_cases.py"


@pytest.fixture
def one_thread():
    """Uses one thread, because the tensors are small and tests run in several processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.keeps_nodes  # cells run on other threads
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_sample(chunk):
    found, ran = [], 0
    for subject in list(all_subjects().values())[chunk::CHUNKS]:
        cells = ordinary_cells(subject)
        ran += grid.run_cells(cells, lambda cell, seen: found.append(f"{cell} :: {seen}"))[0]
    assert ran > 100
    assert not found, "\n".join([
        f"{len(found)} cells differ; again: python tests/pairs --cell 'CELL'", *found[:20]
    ])  # fmt: skip


ROW = "nn.Linear(3, 4) | T(3)"


def tried(context, measure="backward", row=ROW):
    with compare.quiet():
        return grid.run_cell(grid.Row(row, "plain"), (context,), all_measures()[measure])


def test_a_context_that_changes_nothing_is_right():
    assert tried(Context("nothing")) is None


def test_wrong_values_gradients_and_errors_are_found():
    def added(case, f):
        return lambda *x: tuple(o + 1 for o in f(*x))

    def halved(case, f):
        return lambda *x: tuple(o.detach() / 2 + o / 2 for o in f(*x))

    def raising(case, f):
        def run(*x):
            raise RuntimeError("planted")

        return run

    assert tried(Context("added", added)).startswith("result 0: ")
    for measure in ("backward", "func.jvp", "func.grad of func.jvp", "double backward"):
        assert tried(Context("halved", halved), measure, "nn.Tanh() | T(3, 4)")
    assert tried(Context("raising", raising)) == "raises RuntimeError: planted"


LAYER = "nn.TransformerEncoderLayer(4, 2, 6, 0.0, 'gelu', norm_first=True, batch_first=True)"


def test_bfloat16_of_products_that_hooks_divide():
    """Under hooks q, k and v are three tensors; so are those of a layer without hooks here."""
    row = next(s.name for s in all_subjects().values() if s.name.startswith(LAYER))
    contexts = [all_contexts()[n] for n in ("autocast", "full backward hooks")]
    with compare.quiet():
        assert grid.run_cell(grid.Row(row, "plain"), contexts, all_measures()["backward"]) is None
        got = [grid.Row(row, "plain").case(dtype=torch.float32) for _ in range(2)]
        contexts[1].prepare(got[0])
        got[1].module.self_attn.register_forward_pre_hook(
            lambda m, x: tuple(t.view_as(t) for t in x)
        )
        for case in got:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                compare.loss_of(case.f(*case.inputs)).backward()
    assert torch.equal(got[0].inputs[0].grad, got[1].inputs[0].grad)
    tolerance = grid.tolerance_of(grid.Row(ROW, "plain"), contexts, all_measures()["backward"])
    assert tolerance == grid.SINGLE


def test_a_gradient_that_a_hook_sees_wrong_is_found():
    def wrong(case, f):
        def run(*x):
            inside = [t * 1 for t in x]
            inside[0].register_hook(lambda g: case.seen.__setitem__("input 0", g * 2))
            return f(*inside)

        return run

    assert tried(Context("wrong", wrong)).startswith("seen input 0: ")


def test_memory_that_is_packed_before_it_is_written_is_found():
    """A pack hook copies a tensor before it is written, as LayerNorm's op once made it do."""

    def early(case, f):
        def run(*x):
            outs = f(*x)
            late = torch.empty_like(outs[0].detach())
            kept = late.clone()
            late.fill_(1)
            return (outs[0] * kept, *outs[1:])

        return run

    assert tried(Context("early", early)) is not None


def test_cells_are_named():
    for subject in list(all_subjects().values())[::97]:
        for cell in ordinary_cells(subject):
            assert grid.Cell.parse(str(cell)) == cell


def test_the_sample_meets_every_context_and_measure():
    contexts, measures = set(), set()
    for subject in all_subjects().values():
        for cell in ordinary_cells(subject):
            contexts.update(cell.contexts)
            measures.add(cell.measure)
    assert contexts == set(all_contexts())
    assert measures == set(all_measures())
