"""The published figures of the stress test; `scripts/reproduce_figures` runs them."""
