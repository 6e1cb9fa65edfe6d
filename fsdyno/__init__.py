"""fsdyno: a dynamometer for storage stacks. This package decides, remembers and explains."""

__version__ = "0.1.0"
