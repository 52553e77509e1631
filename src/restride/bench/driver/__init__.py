"""The driver of `restride bench --reorder|--shuffle`: oneDNN benchdnn's grammar on restride's engines (spec 3)."""
