"""One module a kind of file, each with `read(path) -> Reading`; `kinds` tells which by the file's bytes."""
