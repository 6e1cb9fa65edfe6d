"""Tests of fsdyno.stats."""
