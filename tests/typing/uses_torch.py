"""Uses of modules of torch as networks, for checkers that find torch."""

from typing import Any, assert_type

import torch

import restride as rs
import restride.torch as rt

module, x = torch.nn.Linear(4, 3).eval(), torch.zeros(1, 4)
program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))

assert_type(rt.compile_module(module, x), rt.CompiledModule)
assert_type(rt.compile_module(program), rt.CompiledModule)
assert_type(rt.compile_module(module, {"input": x})(input=x), torch.Tensor | Any)
assert_type(rt.compile_module(module, [x]).network, rs.Network)
assert_type(rt.compile_module(module, x).network(x), torch.Tensor | Any)
assert_type(rt.compile_module(module, x).network({"input": x}), torch.Tensor | Any)
