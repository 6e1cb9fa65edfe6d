"""A lying double of the agent: speaks the protocol, touches no disk, and misbehaves on demand.

Scheduling, resuming and reporting are tested against it in milliseconds, on any machine, without
root; and the faults that a real agent must never show are shown here. Its numbers are invented from
the trial's seed and spec, with effect sizes that a test may state, so that the answer is known.

    python -m fsdyno.rig.double [--behave FAULT[@TRIAL]] [--effects JSON] run

See `fsdyno.rig.double.faults` for what it can do wrong.
"""
