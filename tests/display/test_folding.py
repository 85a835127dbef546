"""Folding joins equal things only, loses nothing, and is quick."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.compiler.display.folding import FoldedNode, Folder, number_ranges
from meshwright.compiler.plan import ArraySpec

SPLIT, WHOLE = (("model",), ()), ((), ())


def arrays(*items: tuple[str, tuple]) -> list[ArraySpec]:
    return [ArraySpec(path, (8, 8), "float32", spec) for path, spec in items]


def names(nodes: tuple[FoldedNode, ...], prefix: str = "") -> list[str]:
    """Paths of leaves and mirrors, folded names included."""
    found = []
    for node in nodes:
        path = f"{prefix}{node.name}"
        if node.mirror_of:
            found.append(f"{path} = {node.mirror_of}")
        elif node.array is not None:
            found.append(path)
        else:
            found += names(node.children, f"{path}/")
    return found


def fold(*items: tuple[str, tuple]) -> list[str]:
    return names(Folder().fold(arrays(*items), "argument"))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ("0 1 2 3", "0..3"),
        ("10 9 11", "9..11"),
        ("0 1", "0,1"),
        ("0 2 4 6", "0,2,..,6"),
        ("0 1 2 5 7", "0..2,5,7"),
        ("00 01 02", "00..02"),
    ],
)
def test_number_ranges(numbers, text):
    assert number_ranges(numbers.split()) == text


def test_equal_layers_become_one():
    assert fold(*((f"p/block_{i}/w", SPLIT) for i in range(12))) == ["p/block_{0..11}/w"]


def test_a_layer_with_another_sharding_stays_apart():
    layers = [(f"p/block_{i}/w", WHOLE if i == 3 else SPLIT) for i in range(6)]
    assert fold(*layers) == ["p/block_{0..2,4,5}/w", "p/block_3/w"]


def test_several_numbers_in_a_name():
    both = [(f"layer{i}_conv{j}", SPLIT) for i in range(3) for j in range(3)]
    assert fold(*both) == ["layer{0..2}_conv{0..2}"]


def test_numbers_are_layers_too():
    assert fold(*((f"model/layers/{i}/weight", SPLIT) for i in range(4))) == ["model/layers/{0..3}/weight"]


def test_state_that_mirrors_the_parameters():
    params = [(f"{tree}/{name}", SPLIT) for tree in ("s/mu", "s/params") for name in ("a", "b")]
    assert fold(*params) == ["s/mu = s/params", "s/params/a", "s/params/b"]


def test_state_with_other_shardings_is_shown():
    state = [("params/a", SPLIT), ("params/b", SPLIT), ("mu/a", SPLIT), ("mu/b", WHOLE)]
    assert fold(*state) == ["params/a", "params/b", "mu/a", "mu/b"]


def test_results_name_the_argument_they_mirror():
    folder = Folder()
    folder.fold(arrays(("state/a", SPLIT), ("state/b", WHOLE)), "argument")
    results = folder.fold(arrays(("0/a", SPLIT), ("0/b", WHOLE), ("1", SPLIT)), "result")
    assert names(results) == ["0 = argument state", "1"]


def test_scalars_are_left_out():
    assert Folder().fold([ArraySpec("step", (), "int32", ())], "argument") == ()


def test_colliding_paths_are_all_kept():
    assert fold(("a", SPLIT), ("a/b", SPLIT), ("a", WHOLE)) == ["a", "a/b", "a'"]


_PATHS = st.lists(
    st.lists(st.sampled_from(["a", "b_0", "b_1", "0", "1", "c1_2", "{0}"]), min_size=1, max_size=4).map(
        "/".join
    ),
    max_size=40,
)


@given(_PATHS, st.data())
def test_nothing_is_lost_or_invented(paths, data):
    specs = [data.draw(st.sampled_from([SPLIT, WHOLE])) for _ in paths]
    flat = arrays(*zip(paths, specs, strict=True))
    counted: dict[tuple, int] = {}
    for root in Folder().fold(flat, "argument"):
        for array, count in root.leaves():
            counted[array.spec] = counted.get(array.spec, 0) + count * root.copies
    assert counted == {spec: specs.count(spec) for spec in set(specs)}


def test_large_models_fold_quickly(plans):
    flat = plans.build(arguments=plans.decoder_arrays(126)).arguments
    started = time.perf_counter()
    roots = Folder().fold(flat, "argument")
    # Takes about 0.1 s on one slow core; quadratic work would take far longer.
    assert time.perf_counter() - started < 3
    assert len(names(roots)) < 20
    assert sum(root.num_arrays for root in roots) == sum(bool(a.shape) for a in flat)
