# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers inside vmap, for each value of its randomness."""

import pytest
from vmap_checks import X

import cograd as torch
import cograd.nn.functional as F
from cograd.func import vmap

# Ops without a rule warn once; which ops these are does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore:vmap")

RANDOM = "called random operation"


# --- randomness --------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda a: torch.rand(9),
    "randn": lambda a: torch.randn(9),
    "randint": lambda a: torch.randint(0, 1000, (9,)),
    "randperm": lambda a: torch.randperm(40),
    "rand_like": lambda a: torch.rand_like(a),
    "rand_like unbatched": lambda a: torch.rand_like(torch.zeros(9)),
    "dropout": lambda a: F.dropout(a),
    "dropout unbatched": lambda a: F.dropout(torch.ones(40)),
    "bernoulli": lambda a: torch.bernoulli(a),
    "normal": lambda a: torch.normal(a, 1.0),
    "multinomial": lambda a: torch.multinomial(a, 30),
    "normal_": lambda a: a.clone().normal_(),
    "uniform_": lambda a: a.clone().uniform_(),
    "bernoulli_": lambda a: a.clone().bernoulli_(0.5),
    "normal_ of zeros_like": lambda a: torch.zeros_like(a).normal_(),
}
IN_PLACE_UNBATCHED = {
    "normal_": lambda a: torch.zeros(9).normal_(),
    "uniform_": lambda a: torch.zeros(9).uniform_(),
    "bernoulli_": lambda a: torch.zeros(40).bernoulli_(0.5),
}
HALVES = torch.full((4, 40), 0.5)


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_by_mode(name):
    f = DRAWS[name]
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(f)(HALVES)
    same = vmap(f, randomness="same")(HALVES)
    assert all(torch.equal(same[0], row) for row in same)
    different = vmap(f, randomness="different")(HALVES)
    assert len({tuple(row) for row in different.tolist()}) == 4


@pytest.mark.parametrize("name", IN_PLACE_UNBATCHED)
def test_random_writes_to_what_is_the_same_for_all(name):
    f = IN_PLACE_UNBATCHED[name]
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(f)(HALVES)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(f, randomness="different")(HALVES)
    same = vmap(f, randomness="same")(HALVES)
    assert all(torch.equal(same[0], row) for row in same)


def test_dropout_that_is_off_draws_nothing():
    assert torch.equal(vmap(lambda a: F.dropout(a, training=False))(X), X)


def test_randomness_names_are_checked():
    with pytest.raises(RuntimeError, match="'error', 'different', or 'same'. Got x"):
        vmap(torch.sum, randomness="x")(X)


@pytest.mark.parametrize(
    "outer,inner,rows,columns",
    [
        ("same", "same", 1, 1),
        ("same", "different", 1, 3),
        ("different", "same", 2, 1),
        ("different", "different", 2, 3),
    ],
)
def test_randomness_of_nested_vmaps(outer, inner, rows, columns):
    def f(a):
        return vmap(lambda b: torch.rand(8), randomness=inner)(torch.ones(3))

    r = vmap(f, randomness=outer)(torch.ones(2)).tolist()
    assert len({str(row[0]) for row in r}) == rows
    assert len({str(v) for v in r[0]}) == columns


@pytest.mark.parametrize("outer,inner", [("same", "error"), ("error", "same")])
def test_one_level_in_error_mode_is_enough(outer, inner):
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(lambda a: vmap(lambda b: torch.rand(2), randomness=inner)(X), randomness=outer)(X)


def test_random_numbers_for_no_sample():
    f = vmap(lambda a: (torch.rand(2), torch.rand_like(a)), randomness="different")
    assert [tuple(t.shape) for t in f(torch.zeros(0, 3))] == [(0, 2), (0, 3)]


DROPOUTS = [F.dropout, F.alpha_dropout, F.feature_alpha_dropout, F.dropout2d, F.dropout3d]
DROPOUTS += [torch.dropout, torch.alpha_dropout, torch.feature_alpha_dropout, torch.feature_dropout]


@pytest.mark.parametrize("drop", DROPOUTS, ids=lambda f: f"{f.__module__}.{f.__name__}")
@pytest.mark.parametrize("mode", ["error", "same", "different"])
def test_dropout_of_nothing_or_of_all_draws_nothing(drop, mode):
    x = torch.randn(2, 3, 4, 5, 2, dtype=torch.float64)
    assert torch.equal(vmap(lambda a: drop(a, 0.0, True), randomness=mode)(x), x)
    assert torch.equal(vmap(lambda a: drop(a, 0.5, False), randomness=mode)(x), x)
    assert not vmap(lambda a: drop(a, 1.0, True), randomness=mode)(x).any()
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(lambda a: drop(a, 0.5, True))(x)


def test_dropout_of_all_integers_is_of_integers():
    x = torch.arange(6).reshape(2, 3)
    for found in (F.dropout(x, 1.0), vmap(lambda a: F.dropout(a, 1.0))(x)):
        assert torch.equal(found, torch.zeros_like(x))
