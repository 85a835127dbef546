"""jraph: graph networks; their edges are gathers, their sums are segment sums."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, mean_square, normal, train

jraph = pytest.importorskip("jraph")
GRAPHS, NODES, EDGES, WIDTH = 4, 32, 64, 16


def _graph() -> Any:
    """Four graphs of eight nodes as one, edges inside each."""
    start = jnp.repeat(jnp.arange(GRAPHS) * (NODES // GRAPHS), EDGES // GRAPHS)
    return jraph.GraphsTuple(
        nodes=normal(0, NODES, WIDTH),
        edges=normal(1, EDGES, WIDTH),
        senders=start + integers(2, NODES // GRAPHS, EDGES),
        receivers=start + integers(3, NODES // GRAPHS, EDGES),
        globals=normal(4, GRAPHS, WIDTH),
        n_node=jnp.full(GRAPHS, NODES // GRAPHS),
        n_edge=jnp.full(GRAPHS, EDGES // GRAPHS),
    )


def _weights(**shapes: tuple[int, ...]) -> dict[str, jax.Array]:
    return {name: normal(i, *shape, scale=0.3) for i, (name, shape) in enumerate(shapes.items())}


@model("jraph", "graph network: edges, nodes, globals", own=True, kind="graph network")
def test_graph_network() -> Training:
    square = (WIDTH, WIDTH)
    params = _weights(edge=(4 * WIDTH, WIDTH), node=(4 * WIDTH, WIDTH), whole=(3 * WIDTH, WIDTH), out=square)

    def loss(params: Any, graph: Any, target: jax.Array) -> jax.Array:
        def update(name: str) -> Any:
            return lambda *parts: jnp.tanh(jnp.concatenate(parts, -1) @ params[name])

        net = jraph.GraphNetwork(update("edge"), update("node"), update("whole"))
        return mean_square(net(net(graph)).globals @ params["out"], target)

    return train(loss, params, (_graph(), normal(9, GRAPHS, WIDTH)), optax.sgd(0.05, momentum=0.9))


@model("jraph", "graph convolution (Kipf and Welling)", own=True, kind="graph network")
def test_graph_convolution() -> Training:
    params = _weights(first=(WIDTH, WIDTH), second=(WIDTH, 8))

    def loss(params: Any, graph: Any, labels: jax.Array) -> jax.Array:
        for name in ("first", "second"):
            layer = jraph.GraphConvolution(lambda x, w=params[name]: x @ w, add_self_edges=True)
            graph = layer(graph)
            graph = graph._replace(nodes=jnp.tanh(graph.nodes))
        return cross_entropy(graph.nodes, labels)

    return train(loss, params, (_graph(), integers(5, 8, NODES)))


@model("jraph", "graph attention (GAT): segment softmax", own=True, kind="graph network")
def test_graph_attention() -> Training:
    params = _weights(query=(WIDTH, WIDTH), logit=(2 * WIDTH, 1), out=(WIDTH, 8))

    def loss(params: Any, graph: Any, labels: jax.Array) -> jax.Array:
        def logit(sent: jax.Array, received: jax.Array, edges: Any) -> jax.Array:
            return jax.nn.leaky_relu(jnp.concatenate([sent, received], -1) @ params["logit"])

        layer = jraph.GAT(lambda x: x @ params["query"], logit, None)
        nodes = layer(graph._replace(edges=None)).nodes
        return cross_entropy(nodes @ params["out"], labels)

    return train(loss, params, (_graph(), integers(5, 8, NODES)))


@model("jraph", "deep sets", own=True, kind="graph network")
def test_deep_sets() -> Training:
    params = _weights(node=(2 * WIDTH, WIDTH), whole=(WIDTH, WIDTH))

    def loss(params: Any, graph: Any, target: jax.Array) -> jax.Array:
        net = jraph.DeepSets(
            lambda nodes, whole: jnp.tanh(jnp.concatenate([nodes, whole], -1) @ params["node"]),
            lambda nodes: nodes @ params["whole"],
        )
        return mean_square(net(graph).globals, target)

    return train(loss, params, (_graph(), normal(9, GRAPHS, WIDTH)))
