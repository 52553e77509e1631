"""Networks of bytes from networks of f32: where bytes are, with which scales, and what that loses."""
