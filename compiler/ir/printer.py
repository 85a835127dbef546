"""The canonical text form of the IR: deterministic and diffable, and the basis of a program's fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .graph import Graph, Node, Program, Value

_ADDRESS = re.compile(r"(<function \S+| at) 0x[0-9a-f]+")
_INDENT = "  "


def format_program(program: Program, *, sources: bool = True) -> str:
    """Returns the text form of a program.

    Args:
        program: what to print.
        sources: whether each line ends with the user's source line. The fingerprint leaves them out, so that
            moving code about does not make a saved plan stale.
    """
    # A lambda is named by its place ("lambda at train.py:12").
    name = program.name if sources else program.name.partition(" at ")[0]
    head = [f"program @{name} {{"]
    for i, value in enumerate(program.graph.inputs):
        donated = " donated" if program.donated[i] else ""
        head.append(f"{_INDENT}input {value} {value.type} {program.in_paths[i]!r}{donated}")
    head += [f"{_INDENT}constant {value} {value.type}" for value in program.graph.constants]
    body = list(_node_lines(program.graph, 1, sources))
    tail = []
    for i, value in enumerate(program.graph.outputs):
        carried = program.carried[i]
        into = "" if carried is None else f" carried from {program.graph.inputs[carried]}"
        tail.append(f"{_INDENT}output {value} {program.out_paths[i]!r}{into}")
    return "\n".join([*head, *body, *tail, "}"]) + "\n"


def format_graph(graph: Graph, *, sources: bool = True) -> str:
    """Returns the text form of a graph, as it would stand as a region."""
    return "\n".join(_region_lines(graph, 0, sources)) + "\n"


def _region_lines(graph: Graph, depth: int, sources: bool) -> Iterator[str]:
    pad = _INDENT * depth
    yield f"{pad}({_typed((*graph.inputs, *graph.constants))}) {{"
    yield from _node_lines(graph, depth + 1, sources)
    yield f"{pad}{_INDENT}yield {', '.join(map(str, graph.outputs))}"
    yield f"{pad}}}"


def _node_lines(graph: Graph, depth: int, sources: bool) -> Iterator[str]:
    pad = _INDENT * depth
    for node in graph.nodes:
        yield pad + _node_head(node) + (f"  # {node.source}" if sources and node.source else "")
        for region in node.regions:
            yield from _region_lines(region, depth + 1, sources)


def _node_head(node: Node) -> str:
    results = _typed(node.results)
    operands = ", ".join(map(str, node.operands))
    params = format_params(node.params, programs=not node.regions)
    return f"{results + ' = ' if results else ''}{node.op}({operands}){' ' + params if params else ''}"


def _typed(values: tuple[Value, ...]) -> str:
    return ", ".join(f"{v}:{v.type}" for v in values)


def format_params(params: Mapping[str, Any], *, programs: bool = True) -> str:
    """Returns a primitive's parameters as ``{name=value ...}``, empty ones left out.

    Args:
        params: the parameters.
        programs: whether nested programs are printed; those that are regions are printed as such instead.
    """
    shown = [f"{k}={_format_param(v)}" for k, v in sorted(params.items()) if _shown(v, programs)]
    return "{" + " ".join(shown) + "}" if shown else ""


def _shown(param: Any, programs: bool) -> bool:
    if param is None or (isinstance(param, tuple) and not param):
        return False
    items = param if isinstance(param, tuple) else (param,)
    return programs or not any(hasattr(item, "eqns") or hasattr(item, "jaxpr") for item in items)


def _format_param(param: Any) -> str:
    if hasattr(param, "eqns") or hasattr(param, "jaxpr"):
        return _ADDRESS.sub("<...", " ".join(str(param).split()))
    if hasattr(param, "tobytes") and hasattr(param, "dtype"):
        # An array's text leaves its middle out, so its content counts by hash.
        content = hashlib.sha256(param.tobytes()).hexdigest()[:16] if param.ndim else str(param)
        return f"{param.dtype}{list(param.shape)}:{content}"
    if isinstance(param, (set, frozenset)):
        # The order of a set follows the hash seed.
        return "{" + ", ".join(sorted(map(_format_param, param))) + "}"
    if type(param) in (tuple, list):
        return "(" + ", ".join(map(_format_param, param)) + ")"
    if callable(param) and hasattr(param, "__name__"):
        return param.__name__
    return _ADDRESS.sub("<...", repr(param))
