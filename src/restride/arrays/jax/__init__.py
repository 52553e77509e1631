"""Arrays and programs of JAX: what `restride.jax` is made of."""
