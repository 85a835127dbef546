"""Models that users write themselves: adversarial, recommendation, experts, recurrences, forces, physics."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from tests.zoo.harness import Training, model
from tests.zoo.training import adam, cross_entropy, integers, mean_square, normal, train

KEY = jax.random.key(0)
WIDTH, LENGTH, BATCH, WORDS = 16, 8, 8, 32


def _mlp(*sizes: int) -> nn.Module:
    return nn.Sequential([x for size in sizes for x in (nn.Dense(size), nn.tanh)][:-1])


@model("recipe", "GAN, two optimizers", kind="several optimizers: GAN, actor and critic")
def test_gan() -> Training:
    maker, critic = _mlp(32, 8), _mlp(32, 1)
    real, noise = normal(0, 16, 8), normal(1, 16, 4)
    makers, critics = optax.sgd(0.05, momentum=0.9), adam()

    def critic_loss(c: Any, m: Any, real: jax.Array, noise: jax.Array) -> jax.Array:
        fake = critic.apply(c, maker.apply(m, noise))
        return jnp.mean(nn.softplus(-critic.apply(c, real)) + nn.softplus(fake))

    def maker_loss(m: Any, c: Any, noise: jax.Array) -> jax.Array:
        return jnp.mean(nn.softplus(-critic.apply(c, maker.apply(m, noise))))

    def step(state: Any, real: jax.Array, noise: jax.Array) -> tuple[Any, Any]:
        m, c, m_moments, c_moments = state
        c_loss, grads = jax.value_and_grad(critic_loss)(c, m, real, noise)
        updates, c_moments = critics.update(grads, c_moments)
        c = optax.apply_updates(c, updates)
        m_loss, grads = jax.value_and_grad(maker_loss)(m, c, noise)
        updates, m_moments = makers.update(grads, m_moments)
        return (optax.apply_updates(m, updates), c, m_moments, c_moments), jnp.stack([c_loss, m_loss])

    m, c = maker.init(KEY, noise), critic.init(KEY, real)
    return Training(step, (m, c, makers.init(m), critics.init(c)), (real, noise))


@model("recipe", "DLRM: large embedding tables, pairwise products", kind="recommendation, large tables")
def test_dlrm() -> Training:
    tables, rows, width = 4, 512, 8
    bottom, top = _mlp(16, width), _mlp(16, 1)
    dense, sparse, clicks = normal(0, 16, 4), integers(1, rows, 16, tables), integers(2, 2, 16)
    pairs = jnp.triu_indices(tables + 1, 1)

    def loss(params: Any, dense: jax.Array, sparse: jax.Array, clicks: jax.Array) -> jax.Array:
        found = jax.vmap(lambda table, index: table[index], (0, 1), 1)(params["tables"], sparse)
        every = jnp.concatenate([found, bottom.apply(params["bottom"], dense)[:, None]], 1)
        products = jnp.einsum("bid,bjd->bij", every, every)[:, *pairs]
        logits = top.apply(params["top"], products)[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, clicks).mean()

    params = {
        "tables": normal(3, tables, rows, width, scale=0.3),
        "bottom": bottom.init(KEY, dense),
        "top": top.init(KEY, jnp.zeros((1, len(pairs[0])))),
    }
    return train(loss, params, (dense, sparse, clicks), optax.adagrad(0.05, eps=1e-3))


@model("recipe", "mixture of experts, top-2, capacity", kind="mixture of experts")
def test_experts() -> Training:
    experts, capacity = 8, 8
    params = {
        "gate": normal(0, WIDTH, experts),
        "up": normal(1, experts, WIDTH, 32, scale=0.2),
        "down": normal(2, experts, 32, WIDTH, scale=0.2),
    }

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ params["gate"]), 2)
        one_hot = jax.nn.one_hot(chosen, experts)
        place = (jnp.cumsum(one_hot.reshape(-1, experts), 0) - 1).reshape(one_hot.shape)
        kept = one_hot[..., None] * jax.nn.one_hot(place, capacity)
        sent = jnp.einsum("tkec,td->ecd", kept, x)
        hidden = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", sent, params["up"]))
        back = jnp.einsum("ecf,efd->ecd", hidden, params["down"])
        return mean_square(jnp.einsum("tkec,tk,ecd->td", kept, weights, back), y)

    return train(loss, params, (normal(3, 32, WIDTH), normal(4, 32, WIDTH)))


@model("recipe", "mixture of experts, sorted tokens and lax.ragged_dot", kind="mixture of experts")
def test_ragged_experts() -> Training:
    experts = 4
    params = {"gate": normal(0, WIDTH, experts), "up": normal(1, experts, WIDTH, WIDTH, scale=0.2)}

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        scores = jax.nn.softmax(x @ params["gate"])
        chosen = jnp.argmax(scores, -1)
        order = jnp.argsort(chosen)
        sizes = jnp.bincount(chosen, length=experts)
        out = jax.lax.ragged_dot(x[order], params["up"], sizes)
        out = jnp.zeros_like(out).at[order].set(out) * scores.max(-1, keepdims=True)
        return mean_square(out, y)

    return train(loss, params, (normal(3, 32, WIDTH), normal(4, 32, WIDTH)))


@model(
    "recipe", "diagonal state-space layer by lax.associative_scan", kind="state space or linear recurrence"
)
def test_state_space() -> Training:
    params = {
        "decay": normal(0, WIDTH),
        "in": normal(1, 8, WIDTH, scale=0.3),
        "out": normal(2, WIDTH, 8, scale=0.3),
    }

    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        decay = jnp.broadcast_to(jax.nn.sigmoid(params["decay"]), (*x.shape[:2], WIDTH))
        _, state = jax.lax.associative_scan(join, (decay, x @ params["in"]), axis=1)
        return mean_square(state @ params["out"], y)

    return train(loss, params, (normal(3, BATCH, 16, 8), normal(4, BATCH, 16, 8)))


@model(
    "recipe",
    "selective state space (Mamba): depthwise convolution, scan",
    kind="state space or linear recurrence",
)
def test_selective() -> Training:
    inner, states = 16, 4
    params = {
        "in": normal(0, 8, 2 * inner, scale=0.3),
        "conv": normal(1, 4, 1, inner, scale=0.3),
        "select": normal(2, inner, 2 * states + 1, scale=0.3),
        "a": jnp.log(jnp.broadcast_to(jnp.arange(1.0, states + 1), (inner, states))),
        "out": normal(3, inner, 8, scale=0.3),
    }

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        u, gate = jnp.split(x @ params["in"], 2, -1)
        dims = ("NWC", "WIO", "NWC")
        u = jax.lax.conv_general_dilated(
            u, params["conv"], (1,), [(3, 0)], dimension_numbers=dims, feature_group_count=inner
        )
        b, c, rate = jnp.split(jax.nn.silu(u) @ params["select"], [states, 2 * states], -1)
        rate = jax.nn.softplus(rate)

        def step(h: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
            u, b, c, rate = now
            h = jnp.exp(-jnp.exp(params["a"]) * rate[:, None]) * h + (rate * u)[..., None] * b[:, None]
            return h, jnp.einsum("bds,bs->bd", h, c)

        over_time = jax.tree.map(lambda v: v.swapaxes(0, 1), (u, b, c, rate))
        _, out = jax.lax.scan(step, jnp.zeros((BATCH, inner, states)), over_time)
        return mean_square((out.swapaxes(0, 1) * jax.nn.silu(gate)) @ params["out"], y)

    return train(loss, params, (normal(4, BATCH, LENGTH, 8), normal(5, BATCH, LENGTH, 8)))


@model("recipe", "energy and forces: gradient of a gradient", kind="energy, gradient of a gradient")
def test_forces() -> Training:
    net = _mlp(32, 1)
    places, forces = normal(0, BATCH, 6, 3), normal(1, BATCH, 6, 3, scale=0.1)
    pairs = jnp.triu_indices(6, 1)

    def energy(params: Any, x: jax.Array) -> jax.Array:
        gaps = x[:, pairs[0]] - x[:, pairs[1]]
        return net.apply(params, jnp.exp(-jnp.sum(gaps**2, -1, keepdims=True))).sum()

    def loss(params: Any, x: jax.Array, forces: jax.Array) -> jax.Array:
        return mean_square(-jax.grad(energy, 1)(params, x), forces)

    return train(loss, net.init(KEY, jnp.zeros((1, 1))), (places, forces))


class RelativeBias(nn.Module):
    """Attention with a learned bias by bucket of distance, as in T5."""

    heads: int
    bucket_count: int = 8

    @nn.compact
    def __call__(self, x: jax.Array, memory: jax.Array, mask: jax.Array | None) -> jax.Array:
        width = x.shape[-1]
        q, k, v = (nn.DenseGeneral((self.heads, width // self.heads))(t) for t in (x, memory, memory))
        distance = jnp.arange(memory.shape[1]) - jnp.arange(x.shape[1])[:, None]
        bucket = jnp.clip(distance + self.bucket_count // 2, 0, self.bucket_count - 1)
        bias = nn.Embed(self.bucket_count, self.heads)(bucket).transpose(2, 0, 1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
        scores = scores if mask is None else jnp.where(mask, scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
        return nn.DenseGeneral(width, axis=(-2, -1))(mixed)


class EncoderDecoder(nn.Module):
    """T5 in small: tied embeddings, relative bias, cross attention."""

    @nn.compact
    def __call__(self, source: jax.Array, target: jax.Array) -> jax.Array:
        embed = nn.Embed(WORDS, WIDTH)
        memory, x = embed(source), embed(target)
        h = nn.RMSNorm()(memory)
        memory = memory + RelativeBias(4)(h, h, None)
        memory = nn.RMSNorm()(memory + nn.Dense(WIDTH)(nn.relu(nn.Dense(32)(memory))))
        h = nn.RMSNorm()(x)
        x = x + RelativeBias(4)(h, h, nn.make_causal_mask(target))
        x = x + RelativeBias(4)(nn.RMSNorm()(x), memory, None)
        x = x + nn.Dense(WIDTH)(nn.relu(nn.Dense(32)(nn.RMSNorm()(x))))
        return embed.attend(nn.RMSNorm()(x))


@model(
    "recipe",
    "encoder-decoder (T5): tied embeddings, relative bias",
    kind="encoder-decoder, tied embeddings, relative bias",
)
def test_encoder_decoder() -> Training:
    source, target = integers(0, WORDS, BATCH, LENGTH), integers(1, WORDS, BATCH, LENGTH + 1)
    net = EncoderDecoder()

    def loss(params: Any, source: jax.Array, target: jax.Array) -> jax.Array:
        return cross_entropy(net.apply(params, source, target[:, :-1]), target[:, 1:])

    return train(loss, net.init(KEY, source, target[:, :-1]), (source, target))


@model("recipe", "heat equation, conductivity by gradient through lax.scan", kind="physics simulation")
def test_heat() -> Training:
    start, end = normal(0, 4, 16, 16), normal(1, 4, 16, 16, scale=0.1)

    def loss(params: Any, start: jax.Array, end: jax.Array) -> jax.Array:
        def step(field: jax.Array, _: None) -> tuple[jax.Array, None]:
            around = sum(jnp.roll(field, s, axis) for s in (1, -1) for axis in (1, 2))
            return field + 0.1 * jax.nn.sigmoid(params) * (around - 4 * field), None

        return mean_square(jax.lax.scan(step, start, None, length=6)[0], end)

    return train(loss, normal(2, 16, 16), (start, end))


@model("recipe", "implicit layer: fixed point by lax.while_loop, gradient by custom_vjp")
def test_implicit() -> Training:
    params = {"w": normal(0, WIDTH, WIDTH, scale=0.1), "u": normal(1, 8, WIDTH, scale=0.3)}

    def fixed_point(f: Any, start: jax.Array) -> jax.Array:
        def unfinished(state: Any) -> jax.Array:
            return (state[2] < 30) & (jnp.max(jnp.abs(state[0] - state[1])) > 1e-7)

        def advance(state: Any) -> Any:
            return f(state[0]), state[0], state[2] + 1

        return jax.lax.while_loop(unfinished, advance, (f(start), start, 0))[0]

    @jax.custom_vjp
    def solve(params: Any, x: jax.Array) -> jax.Array:
        return fixed_point(lambda z: jnp.tanh(z @ params["w"] + x @ params["u"]), jnp.zeros((16, WIDTH)))

    def forward(params: Any, x: jax.Array) -> Any:
        z = solve(params, x)
        return z, (params, x, z)

    def backward(kept: Any, cotangent: jax.Array) -> Any:
        params, x, z = kept
        _, pull = jax.vjp(lambda p, x, z: jnp.tanh(z @ p["w"] + x @ p["u"]), params, x, z)
        adjoint = fixed_point(lambda u: cotangent + pull(u)[2], cotangent)
        return pull(adjoint)[:2]

    solve.defvjp(forward, backward)
    return train(
        lambda p, x, y: mean_square(solve(p, x), y), params, (normal(2, 16, 8), normal(3, 16, WIDTH))
    )


@model("recipe", "neural ODE: Runge-Kutta by lax.fori_loop and jax.checkpoint")
def test_ode() -> Training:
    net = _mlp(32, 4)
    x, y = normal(0, 16, 4), normal(1, 16, 4)

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        @jax.checkpoint
        def step(x: jax.Array) -> jax.Array:
            k1 = net.apply(params, x)
            k2 = net.apply(params, x + 0.05 * k1)
            return x + 0.1 * k2

        return mean_square(jax.lax.fori_loop(0, 5, lambda _, x: step(x), x), y)

    return train(loss, net.init(KEY, x), (x, y))


@model("recipe", "variational autoencoder, sampled codes")
def test_variational() -> Training:
    encode, decode = _mlp(32, 8), _mlp(32, 16)
    x = normal(0, 16, 16)
    params = {"e": encode.init(KEY, x), "d": decode.init(KEY, jnp.zeros((1, 4)))}

    def loss(params: Any, x: jax.Array, key: jax.Array) -> jax.Array:
        mean, spread = jnp.split(encode.apply(params["e"], x), 2, -1)
        code = mean + jnp.exp(spread) * jax.random.normal(key, mean.shape)
        excess = 0.5 * (mean**2 + jnp.exp(2 * spread) - 2 * spread - 1).sum(-1)
        return mean_square(decode.apply(params["d"], code), x) + 0.1 * excess.mean()

    return train(loss, params, (x, jax.random.key(3)))


@model("recipe", "policy gradient: sampled actions, lax.cond by step", kind="reinforcement learning")
def test_policy() -> Training:
    net = _mlp(32, 4)
    optimizer = adam()

    def step(state: Any, seen: jax.Array) -> tuple[Any, Any]:
        params, moments, key, count = state
        key, sample = jax.random.split(key)

        def loss(params: Any) -> jax.Array:
            logits = net.apply(params, seen)
            action = jax.random.categorical(sample, logits)
            reward = jnp.cos(action + seen[:, 0])
            return -jnp.mean(
                reward * jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
            )

        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = optimizer.update(grads, moments)
        params = jax.lax.cond(count % 2 == 0, lambda: optax.apply_updates(params, updates), lambda: params)
        return (params, moments, key, count + 1), value

    seen = normal(0, 16, 8)
    params = net.init(KEY, seen)
    return Training(step, (params, optimizer.init(params), jax.random.key(1), jnp.int32(0)), (seen,))
