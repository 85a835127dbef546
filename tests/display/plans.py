"""Plans built by hand for the display's tests: a small one, and a 12-layer decoder with Adam."""

from __future__ import annotations

import msgspec

from meshwright.compiler.plan import Plan

GIB = 2**30


def array(
    path: str, shape: tuple[int, ...], spec=None, dtype: str = "float32", donated: bool = False
) -> dict:
    """An ``ArraySpec`` as JSON says it; ``spec`` lists one axis name, tuple of them, or None for each dim."""
    dims = spec or (None,) * len(shape)
    full = [[] if d is None else [d] if isinstance(d, str) else list(d) for d in dims]
    return {"path": path, "shape": shape, "dtype": dtype, "spec": full, "donated": donated}


def build(**changed: object) -> Plan:
    """A plan with the fields of a small matrix product, but for those given; checked as a plan file is."""
    fields: dict[str, object] = {
        "program": "step",
        "fingerprint": "f" * 64,
        "cluster": "cpu:8",
        "num_devices": 8,
        "hardware_hash": "a" * 64,
        "budget_bytes": 7 * GIB,
        "mesh": {"shape": [2, 4], "axis_names": ["data", "model"]},
        "arguments": [array("w", (64, 128), (None, "model")), array("x", (32, 64), ("data", None))],
        "results": [array("", (32, 128), ("data", "model"))],
        "layouts": [{"spec": []}],
        "values": [],
        "reshards": [],
        "collectives": [],
        "costs": {"compute_s": 0.002, "communication_s": 0.0},
        "memory": {
            "peak_bytes": 24576,
            "peak_at": "dot_general:f32[32,128]",
            "largest": [{"name": "w", "bytes": 8192}],
            "curve_bytes": [12288, 24576],
            "state_bytes": 12288,
        },
        "stages": [{"name": "all", "num_nodes": 1, "devices": [0, 8]}],
        "schedule": "none",
        "certificate": {
            "objective_s": 0.002,
            "bound_s": 0.002,
            "gap": 0.0,
            "effort": 2,
            "num_variables": 3,
            "num_edges": 2,
            "meshes": [[[2, 4], 0.002]],
        },
        "meshwright_version": "0.1.0",
    }
    return msgspec.convert(fields | changed, Plan)


def small() -> Plan:
    """One matrix product, no communication."""
    return build()


def decoder_arrays(layers: int, donated: bool = True) -> list[dict]:
    """Parameters and Adam's moments of a decoder, split as Megatron does."""
    params = [("embed/embedding", (50304, 768), ("model", None))]
    for i in range(layers):
        params += [(f"block_{i}/{name}", shape, spec) for name, shape, spec in _BLOCK]
    params += [("norm/scale", (768,), (None,)), ("head/kernel", (768, 50304), (None, "model"))]
    found = [array("state/step", (), dtype="int32", donated=donated)]
    for prefix, dtype in (
        ("params", "bfloat16"),
        ("opt_state/0/mu", "float32"),
        ("opt_state/0/nu", "float32"),
    ):
        found += [array(f"state/{prefix}/{n}", shape, spec, dtype, donated) for n, shape, spec in params]
    return [*found, array("state/opt_state/0/count", (), dtype="int32", donated=donated)]


_BLOCK = (
    ("attention/query/kernel", (768, 12, 64), (None, "model", None)),
    ("attention/key/kernel", (768, 12, 64), (None, "model", None)),
    ("attention/value/kernel", (768, 12, 64), (None, "model", None)),
    ("attention/out/kernel", (12, 64, 768), ("model", None, None)),
    ("attention/out/bias", (768,), (None,)),
    ("norm_0/scale", (768,), (None,)),
    ("norm_1/scale", (768,), (None,)),
    ("up/kernel", (768, 3072), (None, "model")),
    ("up/bias", (3072,), ("model",)),
    ("down/kernel", (3072, 768), ("model", None)),
    ("down/bias", (768,), (None,)),
)


def _collective(i: int) -> dict:
    kind = ("all-reduce", "all-gather", "reduce-scatter")[i % 3]
    axes = (["model"], ["data"], ["data", "model"])[i % 3]
    source = f"/home/user/project/model.py:{40 + i}"
    what = {"value": f"%{100 + i}", "op": "dot_general", "source": source}
    return {
        "kind": kind,
        "axes": axes,
        "bytes": 2 ** (24 - i),
        "count": 24,
        "seconds": 0.004 / (i + 1),
        **what,
    }


def decoder() -> Plan:
    """Twelve layers with Adam on 16 devices: everything the display can say, but pipelines."""
    state = decoder_arrays(12)
    tokens = [array(f"batch/{name}", (64, 1024), ("data", None), "int32") for name in ("inputs", "targets")]
    results = [a | {"path": a["path"].replace("state", "0", 1), "donated": False} for a in state]
    largest = [{"name": f"%{i}:bf16[8,1024,3072]", "bytes": (48 - i) * 2**20} for i in range(10)]
    return build(
        program="train_step",
        cluster="h100:2x8",
        num_devices=16,
        budget_bytes=76_448_000_000,
        mesh={"shape": [4, 4], "axis_names": ["data", "model"]},
        arguments=[*state, *tokens],
        results=[*results, array("1/loss", ())],
        collectives=[_collective(i) for i in range(15)],
        costs={"compute_s": 0.0421, "communication_s": 0.01327},
        memory={
            "peak_bytes": 9 * GIB + 12345,
            "peak_at": "transpose(dot_general):bf16[8,1024,12,64]",
            "largest": largest,
            "curve_bytes": [GIB + (9 * GIB * min(i, 255 - i)) // 128 for i in range(256)],
            "state_bytes": 512 * 2**20,
        },
        certificate={
            "objective_s": 0.05537,
            "bound_s": 0.0551,
            "gap": 0.00488,
            "effort": 2,
            "num_variables": 812,
            "num_edges": 1930,
            "meshes": [
                [[16], 0.081],
                [[2, 8], 0.0601],
                [[4, 4], 0.05537],
                [[8, 2], None],
                [[2, 2, 4], 0.0561],
            ],
        },
    )


def pipeline() -> Plan:
    """Two stages."""
    stages = [{"name": f"stage_{i}", "num_nodes": 10 + i, "devices": [4 * i, 4 * i + 4]} for i in range(2)]
    return build(stages=stages, schedule="1f1b")
