"""Pure decisions of the engine: values and `now` in, values and a reason out; numpy and the standard library alone."""
