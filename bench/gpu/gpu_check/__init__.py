"""The checks of bench/gpu/check."""
