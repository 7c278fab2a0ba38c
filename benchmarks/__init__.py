"""Measurements of the contracts. They are not timed: gas and code size are the same on every machine."""
