"""Tests of the Python half; Rust tests live beside their crates."""
