"""The implementation of `restride.jax`: JAX arrays and programs."""
