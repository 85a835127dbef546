"""Steps of the sweeps: the compiled chain has every one of them, and values stay ordinary."""

import re

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from meshwright.cost_models.calibration.points import ITEM_BYTES, CollectivePoint, ComputePoint, Operation
from meshwright.cost_models.collectives import Collective
from meshwright.runtime.calibration.steps import step_of
from meshwright.runtime.calibration.timing import Stopwatch, program

LENGTH = 3
POINTS = [
    *(ComputePoint(Operation.MATMUL, dtype, 16) for dtype in ITEM_BYTES),
    *(ComputePoint(op, "f32", 64) for op in Operation if op is not Operation.MATMUL),
]


@pytest.fixture(scope="module")
def mesh(devices):
    return Mesh(np.array(devices, dtype=object).reshape(2, 4), ("data", "model"))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("kind", list(Collective))
def test_the_compiler_keeps_every_collective(mesh, kind, axes):
    point = CollectivePoint(kind, 4096, (2, 4), axes)
    chain, operands = program(step_of(point, mesh.axis_names), mesh, 1, LENGTH)
    text = chain.lower(*operands).compile().as_text()
    assert len(re.findall(rf" {kind}(?:-start)?\(", text)) == LENGTH
    assert chain(*operands).shape == operands[0].shape


@pytest.mark.parametrize("kind", list(Collective))
def test_operands_are_a_device_s_part(mesh, kind):
    step = step_of(CollectivePoint(kind, 4096, (2, 4), (1,)), mesh.axis_names)
    whole = kind in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
    assert step.carried().nbytes == (4096 if whole else 1024)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_values_stay_ordinary(mesh, point):
    chain, operands = program(step_of(point, mesh.axis_names), mesh, 50, LENGTH)
    result = np.asarray(chain(*operands), np.float32)
    assert result.shape == operands[0].shape
    assert ((result > 0.05) & (result < 20)).all()
    assert operands[0].nbytes == point.size_bytes


def test_every_product_is_made(mesh):
    step = step_of(ComputePoint(Operation.MATMUL, "f32", 16), mesh.axis_names)
    chain, operands = program(step, mesh, 5, LENGTH)
    assert str(jax.make_jaxpr(chain)(*operands)).count("dot_general") == LENGTH
    assert len(re.findall(r" (?:dot|custom-call)\(", chain.lower(*operands).compile().as_text())) == LENGTH


def test_a_stopwatch_gives_positive_seconds(mesh):
    watch = Stopwatch.on(mesh, repeats=2, chain_s=0.001)
    assert watch.start_s > 0
    step = step_of(ComputePoint(Operation.SCALE, "f32", 2**18), mesh.axis_names)
    assert (watch.seconds(step, 1e-4) or 1.0) > 0
