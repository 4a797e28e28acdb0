"""Training of a small network in JAX, on random data: `python examples/jobs/train_jax.py`. It knows nothing about fikit."""

from __future__ import annotations

import itertools
import time

import jax
import jax.numpy as jnp

STEPS = 200
WIDTHS = (1024, 4096, 4096, 10)


def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    for layer in weights[:-1]:
        x = jax.nn.gelu(x @ layer)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ weights[-1]), y[:, None], axis=1))


@jax.jit
def step(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return [layer - 1e-3 * slope for layer, slope in zip(weights, slopes, strict=True)], value


def main() -> None:
    keys = jax.random.split(jax.random.key(0), len(WIDTHS) + 1)
    shapes = itertools.pairwise(WIDTHS)
    weights = [jax.random.normal(key, shape) / shape[0] ** 0.5 for key, shape in zip(keys[2:], shapes, strict=True)]
    x, y = jax.random.normal(keys[0], (256, WIDTHS[0])), jax.random.randint(keys[1], (256,), 0, WIDTHS[-1])
    began, value = time.monotonic(), jnp.inf
    for _ in range(STEPS):
        weights, value = step(weights, x, y)
    print(f"{STEPS} steps in {time.monotonic() - began:.1f} s, loss {float(value):.3f}")


if __name__ == "__main__":
    main()
