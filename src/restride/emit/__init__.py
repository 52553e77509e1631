"""Code generation: from scheduled work to LLVM IR text."""
