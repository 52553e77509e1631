"""restride.jax: kernels inside programs, with every transformation; arrays of JAX in and out of functions."""

from __future__ import annotations

import doctest
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

pytestmark = pytest.mark.peer
jax = pytest.importorskip("jax")
rj = pytest.importorskip("restride.jax")
jnp = pytest.importorskip("jax.numpy")
kernels = pytest.importorskip("restride.arrays.jax.kernels")

_TWINS = {"bf16": ml_dtypes.bfloat16, "f8_e4m3": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2}


def image(dtype="float32"):
    return (jnp.arange(2 * 12 * 5 * 3) % 100).reshape(2, 12, 5, 3).astype(dtype)


def small():
    return jnp.linspace(-1.0, 1.0, 24).reshape(2, 12)


def by_jax(x, groups=4, axis=1):
    """A channel shuffle as everyone writes it."""
    split = (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    return x.reshape(split).swapaxes(axis, axis + 1).reshape(x.shape)


def bits(x):
    array = np.asarray(x)
    return array.shape, str(array.dtype), array.tobytes()


# --- inside programs ------------------------------------------------------------------------------------

_CALLS = {
    "shuffle": (lambda x: rj.shuffle(x, group_size=3), by_jax),
    "shuffle of axis 0": (lambda x: rj.shuffle(x, group_size=1, axis=0), lambda x: x),
    "shuffle_channels": (
        lambda x: rj.shuffle_channels(x, group=4, axis=-1),
        lambda x: by_jax(x, 4, x.ndim - 1),
    ),
    "channel_shuffle": (lambda x: rj.channel_shuffle(x, 4), by_jax),
    "reorder": (lambda x: rj.reorder(x, "ba", scale=2.0), lambda x: 2 * x),
    "reorder to bf16": (
        lambda x: rj.reorder(x, dtype="bf16", scale=0.5),
        lambda x: (0.5 * x).astype(jnp.bfloat16),
    ),
}


def _cube(call):
    return lambda x: (call(x).astype(jnp.float32) ** 3).sum()


def _both(x):
    return jnp.stack([x, x + 1])


_TRANSFORMS = {
    "at hand": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(f)(x),
    "grad": lambda f, x: jax.grad(_cube(f))(x),
    "jit of grad": lambda f, x: jax.jit(jax.grad(_cube(f)))(x),
    "jvp": lambda f, x: jax.jvp(f, (x,), (x + 1,)),
    "vjp": lambda f, x: jax.vjp(f, x)[1](f(x)),
    "vmap": lambda f, x: jax.vmap(f)(_both(x)),
    "vmap of axis 1": lambda f, x: jax.vmap(f, 1, 2)(jnp.stack([x, x + 1], 1)),
    "jit of vmap of grad": lambda f, x: jax.jit(jax.vmap(jax.grad(_cube(f))))(_both(x)),
    "grad of vmap": lambda f, x: jax.grad(_cube(jax.vmap(f)))(_both(x)),
    "hessian": lambda f, x: jax.hessian(_cube(f))(x),
    "jacrev twice": lambda f, x: jax.jacrev(jax.jacrev(_cube(f)))(x),
    "linearize": lambda f, x: jax.linearize(f, x)[1](x),
    "linear_transpose": lambda f, x: jax.linear_transpose(f, x)(f(x)),
    "scan": lambda f, x: jax.lax.scan(lambda c, _: (f(c).astype(c.dtype), 0), x, None, length=3)[0],
    "checkpoint": lambda f, x: jax.grad(_cube(jax.checkpoint(f)))(x),
    "eval_shape": lambda f, x: jnp.zeros(jax.eval_shape(f, x).shape, jax.eval_shape(f, x).dtype),
    "donated": lambda f, x: jax.jit(f, donate_argnums=0)(x + 0),
    "without jit": lambda f, x: _without_jit(f, x),
    "weakly typed": lambda f, x: jax.jit(lambda y: f(y * 2))(x),
}


def _without_jit(f, x):
    with jax.disable_jit():
        return f(x)


@pytest.mark.parametrize("transform", _TRANSFORMS)
@pytest.mark.parametrize("name", _CALLS)
def test_functions_go_through_every_transformation(name, transform):
    ours, theirs = _CALLS[name]
    made, wanted = (_TRANSFORMS[transform](call, small()) for call in (ours, theirs))
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=1e-2)


def test_gradients_go_the_way_back():
    x, weight = image(), jnp.sin(image())
    back = jax.grad(lambda y: (rj.shuffle(y, group_size=3) * weight).sum())(x)
    assert bits(rj.shuffle(back, group_size=3)) == bits(weight)
    converted = jax.grad(lambda y: (rj.reorder(y, "nhwc", dtype="bf16", scale=2.0)).sum().astype(jnp.float32))
    assert bits(converted(x)) == bits(jnp.full_like(x, 2.0))


def test_integers_have_no_gradients():
    x = small()

    def quantized(y):
        return rj.reorder(y, dtype="s8", scale=100.0).astype(jnp.float32)

    assert not jax.grad(lambda y: quantized(y).sum())(x).any()
    assert bits(jax.jvp(quantized, (x,), (x,))[1]) == bits(jnp.zeros_like(x))
    counts = jnp.arange(24).reshape(2, 12)
    found = jax.grad(lambda y: (rj.shuffle(y, group_size=3) * 1.0).sum(), allow_int=True)(counts)
    assert found.dtype == jax.dtypes.float0


@pytest.mark.parametrize(
    "source", ["float32", "bfloat16", "float16", "float8_e4m3fn", "int8", "uint8", "int32"]
)
@pytest.mark.parametrize("to", ["f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "s8", "u8", "s32"])
def test_programs_give_the_bits_of_the_functions(source, to):
    x = image(source)
    wanted = rs.reorder(np.asarray(x), None, dtype=to, scale=0.3)
    for made in (
        jax.jit(lambda y: rj.reorder(y, "nhwc", dtype=to, scale=0.3))(x),
        rj.reorder(x, "nhwc", dtype=to, scale=0.3),
        rs.reorder(x, "nhwc", dtype=to, scale=0.3),
    ):
        assert isinstance(made, jax.Array)
        assert bits(made) == bits(wanted)


@pytest.mark.parametrize(
    "kind",
    ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float8_e3m4", "float8_e8m0fnu", "complex64"],
)
def test_shuffles_move_the_bits_of_any_type(kind):
    x = image(kind)
    raw = np.asarray(x).view(f"u{x.dtype.itemsize}")
    wanted = np.asarray(by_jax(raw)).tobytes()
    for made in (rj.shuffle(x, group_size=3), jax.jit(lambda y: rj.shuffle(y, group_size=3))(x)):
        assert made.dtype == x.dtype
        assert np.asarray(made).tobytes() == wanted
    again = rs.shuffle(x, group_size=3)
    assert isinstance(again, jax.Array)
    assert np.asarray(again).tobytes() == wanted


def test_subnormal_numbers_are_kept_where_xla_flushes_them():
    x = jnp.full((2, 12), 1e-40, jnp.float32)
    made = jax.jit(lambda y: rj.reorder(y, "ba", scale=2.0))(x)
    assert bits(made) == bits(np.float32(1e-40) * np.full((2, 12), 2, np.float32))


@pytest.mark.parametrize("scale", [0.0, -0.0, float("inf"), float("nan"), np.float32(3), 7])
def test_scales_are_told_apart_by_their_bits(scale):
    x = small()
    with np.errstate(invalid="ignore"):
        wanted = rs.reorder(np.asarray(x), None, scale=scale)
    assert bits(jax.jit(lambda y: rj.reorder(y, scale=scale))(x)) == bits(wanted)


def test_the_layout_of_a_program_is_what_it_asks_for():
    layout = pytest.importorskip("jax.experimental.layout")
    last = layout.Layout(major_to_minor=(0, 2, 3, 1))
    wanted = layout.Format(last, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    made = jax.jit(lambda y: rj.reorder(y, "nhwc"), out_shardings=wanted)(image())
    assert made.format.layout.major_to_minor == (0, 2, 3, 1)
    assert bits(made) == bits(image())
    assert bits(jax.jit(lambda y: rj.shuffle(y, group_size=3))(made)) == bits(by_jax(image()))


def test_large_work_and_many_threads():
    x = jnp.arange(64 * 64 * 512, dtype=jnp.float32).reshape(64, 64, 512)
    wanted = bits(by_jax(x, 16))
    program, wrong = jax.jit(lambda y: rj.shuffle(y, group_size=4)), []

    def work():
        for _ in range(3):
            wrong.extend([] if bits(program(x)) == wanted else ["wrong"])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_equal_work_is_one_handler_and_other_shapes_are_refused_by_it():
    x = jnp.ones((3, 7))
    program = jax.jit(lambda y: rj.shuffle(y, group_size=7))
    program(x)
    count = len(kernels._registered)
    jax.jit(lambda y: rj.shuffle(y, group_size=7) + 1)(x)
    assert len(kernels._registered) == count
    name = list(kernels._registered)[-1]
    assert re.fullmatch(r"restride_[0-9a-f]{32}", name)
    call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((3, 8), jnp.float32))
    with pytest.raises(Exception, match="otherwise than it was made for"):
        jax.jit(call)(jnp.ones((3, 8))).block_until_ready()


def test_where_the_interface_of_xla_is_another_programs_go_by_python(monkeypatch):
    monkeypatch.setattr(kernels, "is_served", lambda: False)
    x = small()
    assert bits(jax.jit(lambda y: rj.shuffle(y, group_size=6))(x)) == bits(by_jax(x, 2))
    made = jax.jit(lambda y: rj.reorder(y, "ba", dtype="bf16", scale=4.0))(x)
    assert bits(made) == bits((4 * x).astype(jnp.bfloat16))
    assert bits(jax.jit(jax.grad(lambda y: (rj.shuffle(y, group_size=6) ** 2).sum()))(x)) == bits(2 * x)


_ON_TWO_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, restride as rs, restride.jax as rj
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
x = jnp.arange(96.0).reshape(8, 12)
call = lambda y: rj.shuffle(y, group_size=3)
wanted = rs.shuffle(np.asarray(x), group_size=3)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(kind,))
    for spec in (P("i"), P(None, "i"), P()):
        parts = jax.device_put(x, NamedSharding(mesh, spec))
        for made in (jax.jit(call)(parts), call(parts), rs.shuffle(parts, group_size=3)):
            assert np.array_equal(made, wanted)
        assert np.array_equal(rj.reorder(parts, "ba"), x)
    mapped = jax.shard_map(call, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    parts = jax.device_put(x, NamedSharding(mesh, P("i")))
    assert np.array_equal(jax.jit(mapped)(parts), wanted)
second = jax.device_put(x, jax.devices()[1])
calls = (call, lambda y: rj.reorder(y, "ba"), lambda y: rs.reorder(y, "ba"), lambda y: rs.concat([y]))
for made in (each(second) for each in calls):
    assert made.devices() == second.devices()
# What lies in another layout there is read right by programs, too.
for tag in ("ab", "ba"):
    made = rs.reorder(second, tag)
    assert np.array_equal(made, x) and (made == second).all() and np.array_equal(made + 0, x)
    assert made.format.layout.major_to_minor == ((0, 1) if tag == "ab" else (1, 0))
"""


@pytest.mark.parametrize("wrong", [[2], {2}, {}, np.array([2]), 2], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_format_is_refused_whether_it_has_a_hash_or_not(wrong):
    x = jnp.ones((2, 3))
    for call in (rj.reorder, _traced):
        with refused("a format tag is a string"):
            call(x, wrong)


def _traced(x, dst):
    return jax.jit(lambda y: rj.reorder(y, dst))(x)


def test_keys_are_refused():
    with refused("elements of key", kind=rs.Unimplemented):
        rj.reorder(jax.random.key(0))


def test_arrays_on_several_devices():
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    _run(_ON_TWO_DEVICES, environment)


def test_a_program_may_run_while_python_ends():
    _run(
        "import jax, jax.numpy as jnp, restride.jax as rj\n"
        "g = lambda y: rj.shuffle(rj.shuffle(y, group_size=4), group_size=2)\n"
        "x = jnp.ones((32, 64, 64, 64)); f = jax.jit(g); f(x).block_until_ready(); late = f(x)"
    )


def _run(code, environment=None):
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, timeout=600, env={**os.environ, **(environment or {})})


# --- arrays in and out of the functions of restride -----------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32", "bool"]
)
def test_reorder_of_an_array_is_an_array_in_that_layout(kind):
    x = image(kind)
    made = rs.reorder(x, "nhwc")
    assert made.format.layout.major_to_minor == (0, 2, 3, 1)
    assert bits(made) == bits(x)
    assert bits(rs.reorder(made, "nchw")) == bits(x)
    assert bits(jax.jit(lambda y: y[:, 1:])(made)) == bits(x[:, 1:])
    blocked = rs.reorder(x, "nChw16c")
    assert isinstance(blocked, rs.Memory)
    assert bits(jax.dlpack.from_dlpack(blocked.to("nchw"))) == bits(x)


def test_all_functions_take_arrays_of_jax():
    x = image()
    plain = np.asarray(x)
    assert bits(rs.shuffle_channels(x, group=4)) == bits(by_jax(x))
    assert bits(rs.concat([x, plain], 1)) == bits(jnp.concatenate([x, x], 1))
    assert bits(rs.add_n([x, x])) == bits(x + x)
    assert isinstance(rs.concat([x, plain]), jax.Array)
    assert type(rs.concat([plain, x])) is np.ndarray
    q, scale, zero = rs.quantize(x, axis=1)
    assert all(isinstance(part, jax.Array) for part in (q, scale, zero))
    assert [bits(part) for part in (q, scale, zero)] == [bits(part) for part in rs.quantize(plain, axis=1)]
    back = rs.dequantize(q, scale, zero, axis=1)
    assert isinstance(back, jax.Array)
    assert bits(back) == bits(rs.dequantize(*map(np.asarray, (q, scale, zero)), axis=1))
    assert rs.quantize(x)[2] == 0
    added = rs.reorder(x, "nhwc", post_ops=[("add", x[0, :, :1, :1])])
    assert bits(added) == bits(x + x[0, :, :1, :1])
    assert rs.plan(x, "nhwc").src == rs.MemoryDesc((2, 12, 5, 3), "f32", "nchw")


def test_4_bit_arrays_go_in_and_memories_come_out():
    x = jnp.arange(-8, 8).reshape(2, 8).astype(jnp.int4)
    made = rs.reorder(x, "ba")
    assert made.desc.data_type is rs.s4
    assert made.to_numpy().astype(int).tolist() == x.astype(jnp.int32).tolist()
    assert bits(rs.shuffle(x, group_size=2).astype(jnp.int8)) == bits(by_jax(x.astype(jnp.int8)))


def test_arrays_of_jax_are_never_written():
    x, out = image(), jnp.zeros_like(image())
    for call in (
        lambda: rs.reorder(x, None, out=out),
        lambda: rs.reorder(np.asarray(x), None, out=out),
        lambda: rs.shuffle(x, group_size=3, out=out),
        lambda: rs.concat([x], out=out),
        lambda: rs.add_n([x, x], out=out),
    ):
        with refused("out cannot be written", "JAX arrays are immutable"):
            call()
    assert not out.any()
    assert rs.Memory.from_dlpack(x).readonly
    with refused("read-only"):
        rs.reorder(np.asarray(x), None, out=rs.Memory.from_dlpack(x))
    mine = np.zeros((2, 12, 5, 3), np.float32)
    assert rs.reorder(x, None, out=mine) is mine
    assert bits(mine) == bits(x)


def test_results_are_safe_to_donate_and_sources_too():
    x = image()
    made = rs.reorder(x, "nhwc")
    kept = np.asarray(made).copy()
    moved = jax.jit(lambda y: y + 1, donate_argnums=0)(made)
    assert bits(moved) == bits(kept + 1)
    given = x + 0
    rs.reorder(given, "nhwc")
    assert bits(jax.jit(lambda y: y + 1, donate_argnums=0)(given)) == bits(x + 1)
    with refused("reorder: x cannot be read", "deleted or donated"):
        rs.reorder(given, "nhwc")


def test_an_array_that_is_still_computed_is_waited_for():
    x = jnp.ones((512, 512))
    slow = jax.jit(lambda y: jax.lax.fori_loop(0, 40, lambda _, z: z @ y / 512, y))
    slow(x).block_until_ready()
    assert bits(rs.reorder(slow(x + 0), "ba")) == bits(slow(x))


# --- what is refused ------------------------------------------------------------------------------------


def test_functions_of_restride_are_refused_while_a_program_is_traced():
    for call in (
        lambda y: rs.reorder(y, "ba"),
        lambda y: rs.shuffle(y, group_size=2),
        lambda y: rs.concat([y, y]),
        lambda y: rs.quantize(y)[0],
        lambda y: rs.softmax(y),
        lambda y: rs.layer_norm(y),
    ):
        for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda y: f(y).sum())):
            with refused("cannot be read", "a traced array has no bytes yet", "use restride.jax"):
                transform(call)(small())


@pytest.mark.parametrize("transform", [jax.jit, lambda f: f], ids=["jit", "at hand"])
def test_errors_are_those_of_restride(transform):
    x = image()
    with refused("'nChw16c' is not a plain format of 4 axes", "rs.reorder makes an rs.Memory"):
        transform(lambda y: rj.reorder(y, "nChw16c"))(x)
    with refused("group_size = 5", "valid values of group_size"):
        transform(lambda y: rj.shuffle(y, group_size=5))(x)
    with refused("axis"):
        transform(lambda y: rj.shuffle(y, group_size=1, axis=4))(x)
    with refused("elements of int4", kind=rs.Unimplemented):
        transform(lambda y: rj.reorder(y, dtype="s4"))(x)
    with refused("float64", "jax_enable_x64", kind=rs.Unimplemented):
        transform(lambda y: rj.reorder(y, dtype="f64"))(x)
    with refused("elements of int4", kind=rs.Unimplemented):
        transform(lambda y: rj.shuffle(y, group_size=2))(jnp.ones((2, 4), jnp.int4))
    with refused("is not a number"):
        transform(lambda y: rj.reorder(y, scale=[1.0, 2.0]))(x)


def test_other_bad_arguments_say_what_to_do():
    x = small()
    with refused("scale is traced", "multiply in JAX"):
        jax.jit(lambda y, s: rj.reorder(y, scale=s))(x, 2.0)
    for array in (np.array([object()]), np.array(["text"]), np.array(["2020-01-01"], "M8[D]")):
        for call in (rj.reorder, lambda x: rj.shuffle(x, group_size=1, axis=0)):
            with refused("restride.jax.", "elements of", kind=rs.Unimplemented):
                call(array)
    with refused("list is not an array"):
        rj.shuffle([[1, 2]], group_size=1)
    with refused("jax_enable_x64", kind=rs.Unimplemented):
        rs.reorder(x, None, dtype="f64")
    with refused("jax.random.key_data(x)"):
        rs.shuffle(jax.random.split(jax.random.key(0), 4)[None], group_size=2)
    with refused("arrays is not a list", "pass [x]"):
        rs.concat(x)
    with refused("13 axes"):
        jax.vmap(lambda y: rj.shuffle(y, group_size=1))(jnp.ones([1] * 13))


def test_restride_alone_imports_no_jax():
    code = (
        "import sys, restride as rs, numpy as np; rs.reorder(np.zeros((1, 2, 3, 4), 'f4'), 'nhwc');"
        "assert 'jax' not in sys.modules; import jax.numpy as jnp;"
        "assert rs.reorder(jnp.zeros((1, 2, 3, 4)), 'nhwc').shape == (1, 2, 3, 4);"
        "assert 'restride.jax' not in sys.modules"
    )
    _run(code)


def test_the_page_about_jax_runs():
    text = (Path(__file__).parents[2] / "docs" / "jax.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```pycon\n(.*?)```", text, re.DOTALL):
        test = doctest.DocTestParser().get_doctest(block, names, "jax.md", None, 0)
        test.globs = names
        said = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert not runner.run(test, out=said.write, clear_globs=False).failed, said.getvalue()
    assert "program" in names
