"""Networks of bytes from networks of f32: where they are quantized, with which scales, and what that loses."""
