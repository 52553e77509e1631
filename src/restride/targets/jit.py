"""LLVM IR text to machine code, and machine code into this process.

compile_ir: text -> relocatable object code, on any machine for any instruction set.
load:       object code -> a `Library` with addresses, on the machine it was made for.

Kernels are position-independent with the small code model; code, constants and stubs of one object are placed
next to each other, so that a shuffle mask is always within reach and far symbols go through stubs. On x86-64
Linux, `mapped_code` does that, and a process whose kernels are all on disk needs no LLVM; elsewhere JITLink.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from typing import Any

from restride.emit.entry import OPTIMIZE
from restride.targets.isa import Isa
from restride.targets.llvm import LLVM_LOCK, binding_with_host, binding_with_targets, llvm
from restride.targets.mapped_code import MappedCode, mapped_code

from ..errors import refuse

_LIBRARY_NUMBER = itertools.count()

# The machine-level optimizer's effort. Measured on register tiles (straight-line shuffles in constant-stride
# loops): 1 runs as fast as 2 and 3, and keeps basic blocks as they are, so that a tile cut into one block per
# exchange step compiles 4 to 9 times faster than in one block.
_EFFORT = 1


def compile_ir(ir_text: str, isa: Isa) -> bytes:
    """Return relocatable object code for LLVM IR text. No device or matching host is needed.

    Floating point is exactly as written: nothing is reassociated, contracted or assumed.
    Raises RuntimeFailure if LLVM rejects the text.
    """
    with LLVM_LOCK:
        machine = _target_machine(isa)
        module = _optimize(ir_text, isa, machine)
        return bytes(_with_llvm_errors("emit object code", isa, machine.emit_object, module))


def assembly(ir_text: str, isa: Isa) -> str:
    """Return the assembly text of the code from `compile_ir`."""
    with LLVM_LOCK:
        machine = _target_machine(isa)
        return str(
            _with_llvm_errors("emit assembly", isa, machine.emit_assembly, _optimize(ir_text, isa, machine))
        )


class Library:
    """Machine code in this process. Its addresses are valid as long as this object lives."""

    # Held by the class, as modules are emptied at exit.
    _exiting = staticmethod(sys.is_finalizing)

    def __init__(self, name: str, tracker: Any) -> None:
        self._name = name
        # LLVM unloads the code with the first tracker that is destroyed, so all of them are kept.
        self._trackers = [tracker]
        self._addresses: dict[str, int] = {}

    def address(self, symbol: str) -> int:
        """Return the address of a function or global variable. Raises RuntimeFailure if there is none."""
        address = self._addresses.get(symbol)
        return address if address is not None else self._look_up(symbol)

    def _look_up(self, symbol: str) -> int:
        with LLVM_LOCK:
            if not self._trackers:
                raise refuse("RS-D04:library-closed", symbol=symbol)
            try:
                tracker = _linker().lookup(self._name, symbol)
            except RuntimeError as error:
                raise refuse("RS-D04:machine-code-could-remove", symbol=symbol, reason=error) from error
            self._trackers.append(tracker)
            self._addresses[symbol] = address = int(tracker[symbol])
        return address

    def close(self) -> None:
        """Unload the code; its addresses are dangling from here on. Closing again does nothing."""
        with LLVM_LOCK:
            self._addresses.clear()
            while self._trackers:
                self._trackers.pop().close()

    def __del__(self) -> None:
        # At interpreter exit the code is not unloaded: a native thread could still be running in it.
        if not self._exiting():
            self.close()


class MappedLibrary(Library):
    """A library that LLVM did not link."""

    def __init__(self, code: MappedCode) -> None:
        self._code = code
        self._addresses = dict(code.symbols)

    def _look_up(self, symbol: str) -> int:
        raise (
            refuse("RS-D04:no-such-symbol", symbol=symbol)
            if self._addresses
            else refuse("RS-D04:library-closed", symbol=symbol)
        )

    def close(self) -> None:
        """Unload the code; its addresses are dangling from here on. Closing again does nothing."""
        self._addresses = {}
        self._code.close()


def load(obj: bytes) -> Library:
    """Load object code from `compile_ir` for this machine. Raises RuntimeFailure if LLVM rejects it.

    The C library's functions resolve. The caller vouches for the bytes: damaged code is not detected here.
    """
    code = mapped_code(obj)
    if code is not None:
        return MappedLibrary(code)
    name = f"restride.{next(_LIBRARY_NUMBER)}"
    with LLVM_LOCK:
        builder = llvm().JITLibraryBuilder().add_object_img(obj).add_current_process()
        try:
            tracker = builder.link(_linker(), name)
        except RuntimeError as error:
            raise refuse("RS-D04:machine-code-could", reason=error) from error
    return Library(name, tracker)


def _optimize(ir_text: str, isa: Isa, machine: Any) -> Any:
    """Return the verified module after the few passes that straight-line vector code needs: inlining.

    Full pipelines were measured: 5 to 30 ms more for the same speed of the loops, because addresses leave
    their loops in the code generator anyway, and instruction combining undoes the cut into blocks.
    """
    if "\0" in ir_text:
        raise refuse("RS-D03:llvm-failed-parse")
    binding = llvm()
    module = _with_llvm_errors("parse", isa, binding.parse_assembly, ir_text, binding.create_context())
    module.triple = isa.triple
    module.data_layout = str(machine.target_data)
    _with_llvm_errors("verify", isa, module.verify)
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1))
    optimized = ir_text.partition("\n")[0].removeprefix(OPTIMIZE) if ir_text.startswith(OPTIMIZE) else None
    if optimized == "":
        _add_tree_passes(passes)
    passes.run(module, builder)
    if optimized:
        passes = binding.create_new_function_pass_manager()
        _add_tree_passes(passes)
        passes.run(module.get_function(optimized.strip()), builder)
    return module


def _add_tree_passes(passes: Any) -> None:
    """Add passes that move memory to registers and remove duplicates; they change no operation."""
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_dead_code_elimination_pass()


def _with_llvm_errors(step: str, isa: Isa, call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except RuntimeError as error:
        raise refuse("RS-D03:llvm-failed", step=step, name=isa.name, reason=error) from error


@functools.cache
def _target_machine(isa: Isa) -> Any:
    binding = binding_with_targets()
    target = _with_llvm_errors("find the target", isa, binding.Target.from_triple, isa.triple)
    return _with_llvm_errors(
        "make the target machine",
        isa,
        functools.partial(
            target.create_target_machine,
            cpu=isa.cpu,
            features=isa.features,
            opt=_EFFORT,
            reloc="pic",
            codemodel="small",
        ),
    )


@functools.cache
def _linker() -> Any:
    """Return the one linker of this process. JITLink does not support Windows objects yet."""
    binding = binding_with_host()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(opt=_EFFORT, reloc="pic", codemodel="small")
    return binding.create_lljit_compiler(machine, use_jit_link=os.name != "nt", suppress_errors=True)
