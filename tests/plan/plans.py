"""Small plans: one by hand, and a hypothesis strategy for any that the record can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from meshwright.compiler.plan import (
    ArraySpec,
    Certificate,
    CollectiveUse,
    CostTerms,
    LiveTensor,
    MemoryProfile,
    MeshSpec,
    Plan,
    Reshard,
    Stage,
    ValueLayout,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=8)
COUNTS = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e6, allow_nan=False)
AXES = st.lists(NAMES, max_size=2).map(tuple)
SPECS = st.lists(AXES, max_size=3).map(tuple)


def several(strategy: st.SearchStrategy) -> st.SearchStrategy:
    """Up to two of something, as a tuple."""
    return st.lists(strategy, max_size=2).map(tuple)


def small_plan(program: str = "step", objective_s: float = 0.25) -> Plan:
    """A matrix product split over two devices."""
    return Plan(
        program=program,
        fingerprint="0f" * 32,
        cluster="cpu:2",
        num_devices=2,
        hardware_hash="ab" * 32,
        budget_bytes=2**30,
        mesh=MeshSpec((2,), ("data",)),
        arguments=(
            ArraySpec("x", (8, 4), "float32", (("data",), ()), donated=True),
            ArraySpec("w", (4, 2), "float32", ((), ())),
        ),
        results=(ArraySpec("", (8, 2), "float32", (("data",), ())),),
        layouts=(ValueLayout((("data",), ())), ValueLayout(((), ()), ("data",))),
        values=(0, 1, 0, -1),
        reshards=(Reshard(0, -1, 1, 0),),
        collectives=(CollectiveUse("all-reduce", ("data",), 64, 1, 0.125, "%2", "dot_general", "m.py:3"),),
        costs=CostTerms(0.125, 0.125),
        memory=MemoryProfile(224, "dot_general", (LiveTensor("x", 64),), (160, 224), 96),
        stages=(Stage(program, 1, (0, 2)),),
        schedule="none",
        certificate=Certificate(objective_s, 0.2, 0.2, 2, 3, 3, (((2,), objective_s), ((1,), None))),
        meshwright_version="0.1.0",
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan, sensible or not."""
    array = st.builds(ArraySpec, NAMES, several(COUNTS), NAMES, SPECS, st.booleans())
    return draw(
        st.builds(
            Plan,
            program=NAMES,
            fingerprint=NAMES,
            cluster=NAMES,
            num_devices=COUNTS,
            hardware_hash=NAMES,
            budget_bytes=COUNTS,
            mesh=st.builds(MeshSpec, several(COUNTS), AXES),
            arguments=several(array),
            results=several(array),
            layouts=several(st.builds(ValueLayout, SPECS, AXES)),
            values=several(st.integers(-1, 9)),
            reshards=several(st.builds(Reshard, st.integers(-1, 9), st.integers(-1, 3), COUNTS, COUNTS)),
            collectives=several(
                st.builds(CollectiveUse, NAMES, AXES, COUNTS, COUNTS, SECONDS, NAMES, NAMES, NAMES)
            ),
            costs=st.builds(CostTerms, SECONDS, SECONDS),
            memory=st.builds(
                MemoryProfile,
                COUNTS,
                NAMES,
                several(st.builds(LiveTensor, NAMES, COUNTS, COUNTS)),
                several(COUNTS),
                COUNTS,
                COUNTS,
            ),
            stages=several(st.builds(Stage, NAMES, COUNTS, st.tuples(COUNTS, COUNTS))),
            schedule=NAMES,
            certificate=st.builds(
                Certificate,
                SECONDS,
                SECONDS,
                SECONDS,
                st.integers(0, 3),
                COUNTS,
                COUNTS,
                several(st.tuples(several(COUNTS), st.none() | SECONDS)),
            ),
            meshwright_version=NAMES,
        )
    )
