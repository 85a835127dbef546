"""The verifier: good programs pass, each broken rule is caught, the message names operation and line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.compiler.ir import (
    Graph,
    Literal,
    Node,
    TensorType,
    Value,
    verify_graph,
    verify_program,
    walk_nodes,
)
from meshwright.compiler.ir.verifier import VerificationError
from tests.ir.programs import F32, graph, layered_program, node

LONGER = TensorType((5,), "float32", 4)


def values(*indices: int, type_: TensorType = F32) -> tuple[Value, ...]:
    return tuple(Value(i, type_) for i in indices)


def scan(operands: tuple[Value, ...], results: tuple[Value, ...], body: Graph, num_carry: int = 0) -> Node:
    """A loop of three trips that closes over nothing."""
    return node("scan", operands, results, (body,), num_consts=0, num_carry=num_carry, length=3)


def test_a_traced_program_passes() -> None:
    verify_program(layered_program())


def test_numbers_are_unique_and_counted() -> None:
    program = layered_program()
    nodes = list(walk_nodes(program.graph))
    assert [n.index for n in nodes] == list(range(program.num_nodes))
    regions = [program.graph, *(r for n in nodes for r in n.regions)]
    defined = [v.index for g in regions for v in (*g.inputs, *g.constants)]
    defined += [v.index for n in nodes for v in n.results]
    assert sorted(defined) == list(range(program.num_values))


def test_undefined_operand() -> None:
    a, b, ghost = values(0, 1, 2)
    broken = graph((a,), (node("add", (a, ghost), (b,)),), (b,))
    with pytest.raises(VerificationError, match=r"'add' at model.py:7 reads undefined %2"):
        verify_graph(broken)


def test_operand_defined_later() -> None:
    a, b, c = values(0, 1, 2)
    first, second = node("neg", (c,), (b,)), node("neg", (a,), (c,))
    with pytest.raises(VerificationError, match=r"'neg' at model.py:7 reads undefined %2"):
        verify_graph(graph((a,), (first, second), (b,)))
    verify_graph(graph((a,), (second, first), (b,)))


def test_double_definition() -> None:
    a, b = values(0, 1)
    twice = (node("neg", (a,), (b,)), node("exp", (a,), (Value(1, F32),)))
    with pytest.raises(VerificationError, match=r"'exp' at model.py:7 defines %1 again"):
        verify_graph(graph((a,), twice, (b,)))


def test_double_definition_in_a_region() -> None:
    a, b = values(0, 1)
    body = graph((Value(0, F32),), (), (Literal(0.0, F32),))
    with pytest.raises(VerificationError, match=r"%0 again"):
        verify_graph(graph((a,), (scan((a,), (b,), body),), (b,)))


def test_regions_are_closed() -> None:
    a, inner, result = values(0, 1, 2)
    body = graph((inner,), (), (a,))
    with pytest.raises(VerificationError, match=r"output %0 is undefined"):
        verify_graph(graph((a,), (scan((a,), (result,), body),), (result,)))


def test_undefined_output() -> None:
    a, ghost = values(0, 1)
    with pytest.raises(VerificationError, match=r"output %1 is undefined"):
        verify_graph(graph((a,), (), (ghost,)))


def test_scan_operands_do_not_fit_its_body() -> None:
    a, b, i, result = values(0, 1, 2, 3)
    body = graph((i,), (), (i,))
    with pytest.raises(VerificationError, match=r"'scan' at model.py:7 has 1 body inputs, expected 2"):
        verify_graph(graph((a, b), (scan((a, b), (result,), body),), (result,)))


def test_scan_results_do_not_fit_its_body() -> None:
    a, i, r, s = values(0, 1, 2, 3)
    body = graph((i,), (), (i,))
    with pytest.raises(VerificationError, match=r"'scan' at model.py:7 has 1 body outputs, expected 2"):
        verify_graph(graph((a,), (scan((a,), (r, s), body),), (r,)))


def test_a_scan_carry_keeps_its_type() -> None:
    a, i, r = values(0, 1, 9)
    (o,) = values(2, type_=LONGER)
    body = graph((i,), (node("neg", (i,), (o,)),), (o,))
    with pytest.raises(
        VerificationError, match=r"'scan' at model.py:7: carries %1 is f32\[4\], expected f32"
    ):
        verify_graph(graph((a,), (scan((a,), (r,), body, num_carry=1),), (r,)))


@pytest.mark.parametrize("op", ["remat2", "checkpoint"])
def test_remat_operands_fit_its_body(op: str) -> None:
    a, b, i, r = values(0, 1, 2, 9)
    remat = node(op, (a, b), (r,), (graph((i,), (), (i,)),))
    with pytest.raises(VerificationError, match=rf"'{op}' at model.py:7 has 1 body inputs, expected 2"):
        verify_graph(graph((a, b), (remat,), (r,)))


def test_remat_results_fit_its_body() -> None:
    a, i = values(0, 2)
    (r,) = values(9, type_=LONGER)
    remat = node("remat2", (a,), (r,), (graph((i,), (), (i,)),))
    with pytest.raises(VerificationError, match=r"'remat2' at model.py:7: body outputs %2 is f32\[4\]"):
        verify_graph(graph((a,), (remat,), (r,)))


def test_while_carries_fit_its_results_and_regions() -> None:
    a, b, i, j, r = values(0, 1, 2, 3, 9)
    with pytest.raises(VerificationError, match=r"'while' at model.py:7 has 1 results, expected 2"):
        verify_graph(_while(a, (r, Value(10, F32)), graph((i,), (), ()), graph((j,), (), (j,))))
    with pytest.raises(VerificationError, match=r"'while' at model.py:7 has 1 carries, expected 0"):
        verify_graph(_while(a, (r,), graph((i,), (), ()), graph((j,), (), ())))
    with pytest.raises(VerificationError, match=r"'while' at .* has 1 carries of the condition, expected 2"):
        verify_graph(_while(a, (r,), graph((i, b), (), ()), graph((j,), (), (j,))))


def _while(operand: Value, results: tuple[Value, ...], condition: Graph, body: Graph) -> Graph:
    """A graph of one loop that closes over nothing."""
    loop = node("while", (operand,), results, (condition, body), cond_nconsts=0, body_nconsts=0)
    return graph((operand,), (loop,), results)


def test_cond_branches_must_agree() -> None:
    p, a, r = values(0, 1, 9)
    (i,), (j,) = values(2), values(3, type_=LONGER)
    cond = node("cond", (p, a), (r,), (graph((i,), (), (i,)), graph((j,), (), (j,))))
    with pytest.raises(VerificationError, match=r"'cond' at model.py:7: branch inputs %3 is f32\[5\]"):
        verify_graph(graph((p, a), (cond,), (r,)))
    few = node("cond", (p,), (r,), (graph((i,), (), (i,)),))
    with pytest.raises(VerificationError, match=r"'cond' at model.py:7 has 1 branch inputs, expected 0"):
        verify_graph(graph((p,), (few,), (r,)))


@pytest.mark.parametrize("made", [LONGER, TensorType((4,), "int32", 4)], ids=str)
def test_cond_branches_make_the_results_types(made: TensorType) -> None:
    p, a, r, i, j = values(0, 1, 9, 2, 3)
    (o,) = values(4, type_=made)
    other = graph((j,), (node("convert_element_type", (j,), (o,)),), (o,))
    cond = node("cond", (p, a), (r,), (graph((i,), (), (i,)), other))
    with pytest.raises(VerificationError, match=r"'cond' at model.py:7: branch outputs %4 is "):
        verify_graph(graph((p, a), (cond,), (r,)))


def test_constants_need_arrays() -> None:
    (c,) = values(0)
    with pytest.raises(VerificationError, match="one array per constant"):
        verify_graph(Graph((), (c,), (), (), (c,)))


def test_carried_type_mismatch() -> None:
    program = layered_program()
    # The output %h is f32[4], the last input f32[3,4].
    with pytest.raises(VerificationError, match=r"carried %\d+ is f32\[4\], its input %\d+ f32\[3,4\]"):
        verify_program(replace(program, carried=(2, *program.carried[1:])))


def test_paths_must_match_inputs_and_outputs() -> None:
    program = layered_program()
    with pytest.raises(VerificationError, match="one path per input"):
        verify_program(replace(program, in_paths=program.in_paths[:-1]))
    with pytest.raises(VerificationError, match="one path per output"):
        verify_program(replace(program, out_paths=(*program.out_paths, "more")))


def test_the_error_shows_the_graph() -> None:
    a, ghost = values(0, 1)
    with pytest.raises(VerificationError) as caught:
        verify_graph(graph((a,), (), (ghost,)))
    assert "yield %1" in "".join(caught.value.__notes__)
