"""Tests of fsdyno.report."""
