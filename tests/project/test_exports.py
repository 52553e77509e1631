"""The public names: all there, all documented, and shipped with their types."""

import importlib
import inspect
import os
import subprocess
import sys
import tomllib
import types
import typing
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing
import pytest

import restride as rs
import restride_bench

ROOT = Path(__file__).parents[2]
TYPES = "f64 f32 bf16 f16 f8_e5m2 f8_e4m3 f4_e2m1 f4_e3m0 nf4 s32 s8 u8 s4 u4 e8m0 boolean undef"
ARRAYS = "reorder plan Plan set_num_threads get_num_threads set_verbose"
MODEL = """
    MemoryDesc FormatTag DataType Memory NO_DATA Engine Stream Event PrimitiveAttr PostOps Reorder Error
    Status InvalidArguments Unimplemented OutOfMemory RuntimeFailure set_primitive_cache_capacity
    get_primitive_cache_capacity arg_attr_multiple_post_op RUNTIME_DIM RUNTIME_F32_VAL
    RUNTIME_S32_VAL MAX_NDIMS Query CacheInfo cache_info recommended_desc
"""
QUERIES = """
    src_desc dst_desc get_src_engine get_dst_engine get_engine impl_info_str query_s64 query_md
    get_primitive_attr get_kind scratchpad_desc scratchpad_engine __bool__ weights_desc diff_src_desc
    diff_dst_desc diff_weights_desc workspace_desc
"""
MEMBERS = {
    "MemoryDesc": """
        dims ndims data_type padded_dims strides inner_blks inner_idxs offset0 size nelems tag offset index
        physical_shape physical_strides submemory_desc reshape permute_axes is_zero
    """,
    "FormatTag": "parse any undef a nchw nhwc acdb",
    "Memory": """
        from_numpy desc engine data physical to_numpy get_data_handle set_data_handle map_data unmap_data
        __dlpack__ __dlpack_device__ __array__
    """,
    "Engine": "get_count kind index",
    "Stream": "wait engine flags",
    "PrimitiveAttr": """
        set_output_scales get_output_scales set_scales get_scales set_scales_mask set_zero_points
        get_zero_points set_zero_points_mask set_post_ops
        get_post_ops set_scratchpad_mode get_scratchpad_mode
    """,
    "PostOps": """
        append_sum append_eltwise append_binary kind get_params_sum get_params_eltwise get_params_binary
    """,
    "Reorder": "PrimitiveDesc execute execute_sycl get_primitive_desc get_kind",
    "Plan": "schedule ir asm",
    "CacheInfo": "hits misses evictions size capacity",
}


@pytest.mark.parametrize("name", f"{TYPES} {ARRAYS} {MODEL}".split())
def test_every_name_of_the_interface_is_there(name):
    assert name in {*rs.__all__, *rs.onednn.__all__}
    assert hasattr(rs, name)  # names of the programming model too, as in earlier versions


def test_every_exported_name_exists_once_and_is_not_private():
    assert len(rs.__all__) == len(set(rs.__all__))
    for name in rs.__all__:
        assert hasattr(rs, name), name
        assert name == "__version__" or not name.startswith("_")


@pytest.mark.parametrize(
    "name", ["dask", "formats", "graph", "layouts", "onednn", "onnx", "openvino", "typing"]
)
def test_a_module_lists_its_public_names_alone(name):
    module = importlib.import_module(f"restride.{name}")
    assert dir(module) == sorted(module.__all__)


def test_few_names_are_public():
    assert len([name for name in dir(rs) if not isinstance(getattr(rs, name), rs.DataType)]) <= 62


def test_names_of_earlier_versions_work_and_are_not_listed():
    earlier = {"trim", "verbose", *(f"ARG_{name}" for name in rs.onednn.Arg.__members__), *rs.onednn.__all__}
    for name in earlier - {"Arg"}:
        assert hasattr(rs, name), name
    assert not {"trim", "verbose", "ARG_SRC", "Reorder", "PrimitiveAttr", "RUNTIME_DIM"} & set(dir(rs))


def test_nothing_public_is_left_out_of_the_list():
    found = {name for name, value in vars(rs).items() if not isinstance(value, types.ModuleType)}
    assert {name for name in found if not name.startswith("_")} <= set(rs.__all__)


@pytest.mark.parametrize("owner", MEMBERS)
def test_every_member_of_the_interface_is_there(owner):
    for name in MEMBERS[owner].split():
        assert hasattr(getattr(rs, owner), name), f"{owner}.{name}"


def test_the_descriptor_of_a_reorder_has_every_query():
    for name in QUERIES.split():
        assert hasattr(rs.Reorder.PrimitiveDesc, name), name


@pytest.mark.parametrize("name", [*rs.__all__, *rs.onednn.__all__])
def test_functions_and_classes_say_what_they_do(name):
    value = getattr(rs, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (value.__doc__ or "").strip(), name


@pytest.mark.parametrize(("name", "own"), [("reorder", ""), ("plan", " schedule effort")])
def test_array_functions_take_their_options_by_name_only(name, own):
    parameters = inspect.signature(getattr(rs, name)).parameters
    kinds = {p.name: p.kind for p in parameters.values()}
    options = f"src dtype scale zero_point axis beta post_ops out engine{own}"
    assert list(kinds) == ["x", "dst", *options.split()]
    assert all(kinds[option] is inspect.Parameter.KEYWORD_ONLY for option in options.split())


def test_public_signatures_have_types():
    # The words of annotations are in a module that only type checkers load.
    names = vars(np.typing) | vars(importlib.import_module("restride.typing"))
    for function in (rs.reorder, rs.plan, rs.Memory.from_numpy, rs.Reorder.execute, rs.set_num_threads):
        hints = typing.get_type_hints(function, localns=names)
        assert "return" in hints, function


def test_the_version_is_one_and_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert rs.__version__.count(".") == 2


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the library, and of what measures it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for root in (ROOT, ROOT / "bench"):
        subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=600)
    return [folder / f"{name}-{rs.__version__}-py3-none-any.whl" for name in ("restride", "restride_bench")]


@pytest.mark.parametrize("package", [rs, restride_bench], ids=lambda package: package.__name__)
def test_a_wheel_ships_every_module_of_its_package_and_its_types(wheels, package):
    (wheel,) = (each for each in wheels if each.name.startswith(f"{package.__name__}-"))
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = Path(package.__file__).parent
    assert {path.relative_to(folder.parent).as_posix() for path in folder.rglob("*.py")} <= names
    assert f"{package.__name__}/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {package.__name__}
    assert package is restride_bench or any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests") or name.endswith((".so", ".pyc"))]


@pytest.mark.slow
def test_the_benchmark_runs_where_the_wheels_are_installed(wheels, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, *map(str, wheels)], check=True, capture_output=True, timeout=600)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def printed(*words):
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for package in ("restride", "restride_bench"):
        found = printed("-c", f"import {package}; print({package}.__file__)").strip()
        assert Path(found) == tmp_path / package / "__init__.py"
    line = ("bench", "--reorder", "2x3")
    assert "tests:1 passed:1" in printed("-m", "restride", *line)
    assert "tests:1 passed:1" in printed(str(tmp_path / "bin" / "restride"), *line)
    assert "4096x4096" in printed("-m", "restride_bench", "--list", "--rows", "4096x4096")
