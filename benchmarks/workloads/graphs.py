"""Message passing on a graph, float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .layers import Params, init_params, mlp, mlp_shapes, norm, norm_shapes
from .training import Workload, training


def gnn(layers: int, quick: bool) -> Workload:
    """Encode, pass messages, decode: a graph network that predicts a vector for each node.

    The layer is the graph network block of Battaglia et al. 2018, residual as in
    Sanchez-Gonzalez et al. 2020.
    """
    nodes, edges, width = (32, 128, 16) if quick else (16384, 131072, 512)
    node_features, edge_features, targets = 64, 16, 16

    def loss(params: Any, batch: Any) -> jax.Array:
        node, edge = mlp(params["node"], batch["nodes"]), mlp(params["edge"], batch["edges"])
        for layer in params["layers"]:
            node, edge = _pass_messages(layer, node, edge, batch["senders"], batch["receivers"])
        return jnp.mean((mlp(params["head"], node) - batch["targets"]) ** 2)

    def init(key: jax.Array) -> Any:
        layer = {
            "edge": mlp_shapes(3 * width, width, width),
            "norm_edge": norm_shapes(width),
            "node": mlp_shapes(2 * width, width, width),
            "norm_node": norm_shapes(width),
        }
        shapes = {
            "node": mlp_shapes(node_features, width, width),
            "edge": mlp_shapes(edge_features, width, width),
            "layers": [layer] * layers,
            "head": mlp_shapes(width, width, targets),
        }
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        keys = jax.random.split(key, 5)
        return {
            "nodes": jax.random.normal(keys[0], (nodes, node_features)),
            "edges": jax.random.normal(keys[1], (edges, edge_features)),
            "targets": jax.random.normal(keys[2], (nodes, targets)),
            "senders": jax.random.randint(keys[3], (edges,), 0, nodes),
            "receivers": jax.random.randint(keys[4], (edges,), 0, nodes),
        }

    return training(loss, init, make_batch)


def _pass_messages(
    layer: Params, node: jax.Array, edge: jax.Array, senders: jax.Array, receivers: jax.Array
) -> tuple[jax.Array, jax.Array]:
    both = jnp.concatenate([edge, node[senders], node[receivers]], -1)
    message = norm(layer["norm_edge"], mlp(layer["edge"], both))
    received = jax.ops.segment_sum(message, receivers, num_segments=node.shape[0])
    update = mlp(layer["node"], jnp.concatenate([node, received], -1))
    return node + norm(layer["norm_node"], update), edge + message
