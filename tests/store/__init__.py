"""Tests of fsdyno.store."""
