"""What stood in a trial: the machine that it ran in, and the file system that mkfs made there.

Pure functions of a trial's events. A campaign knows where its rig is; a guest has a kernel, CPUs and a
boot of its own. A spec says what was asked of mkfs; only the medium says what came of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from fsdyno.store.aligned import Alignment
from fsdyno.store.records import canonical

GUEST = "guest"
ON, OFF, NONE = "on", "off", "none"
"""Of barriers, as the agent says them."""

# Facts of a guest by which results are told apart. Its boot is another one each round, which changes nothing.
_MACHINE = ("kernel", "accelerator", "cpus", "memory", "qemu")

# Facts of a file system that follow from its configuration alone: two trials of a cell must agree on them.
# Not among them: UUIDs, counts of free things, and all else that another run of mkfs may change.
FORMAT = (
    "features", "version", "revision", "checksum", "hash",
    "crc", "finobt", "rmapbt", "reflink", "bigtime", "lazy_count",
    "size", "blocks", "devices",
    "block_size", "sector_size", "cluster_size", "segment_size", "node_size", "inode_size", "record_size",
    "stride", "stripe_width", "sunit", "swidth",
    "agcount", "agblocks", "allocation_group_size", "blocks_per_group", "inodes_per_group", "inodes",
    "segments", "segment_blocks", "segments_per_section",
    "data", "metadata", "system",
    "journal", "journal_inode", "journal_blocks", "journal_size", "transaction_blocks",
    "log_size", "log_stripe_unit",
    "external_journal", "external_log", "external_realtime",
    "reserved_blocks", "reserved_blocks_count", "reserved_segments", "overprovision_segments",
)  # fmt: skip

# The mode of a queue that takes no flushes.
_WRITE_THROUGH = "write through"


@dataclass(frozen=True)
class Stood:
    """What stood. `aligned` is None where no part says so."""

    where: dict[str, Any]  # place, boot; of a guest also kernel, accelerator, cpus, memory, qemu, calibration
    made: list[dict[str, Any]]  # one for each mkfs, in order
    aligned: bool | None  # at the end of the trial
    alignment: list[str]  # sentences, one for each part that has something to say
    barriers: str | None = None  # on | off | none (it never has any); None where nothing was mounted

    @property
    def facts(self) -> dict[str, Any]:
        """The part that the store keeps beside the hashes."""
        return {
            "made": self.made,
            "aligned": self.aligned,
            "alignment": self.alignment,
            "barriers": self.barriers,
        }


def stood(events: list[dict[str, Any]]) -> Stood:
    """What the events of a trial say."""
    where: dict[str, Any] = {}
    made: list[dict[str, Any]] = []
    alignment = Alignment()
    barriers: list[str] = []
    for event in events:
        kind, facts = event.get("event"), event.get("facts") or {}
        alignment.hear(event)
        if kind == "trial_start":
            where["place"] = event.get("place")
            where.setdefault("boot", event.get("boot"))
        elif kind == "hello" and event.get("from") == GUEST:
            where["calibration"] = event.get("calibration")
        elif kind == "built" and event.get("part") == "machine":
            where |= {key: facts[key] for key in (*_MACHINE, "boot") if key in facts}
        elif kind == "built" and event.get("part") == "mount" and "barriers" in facts:
            barriers.append(str(facts["barriers"]))
        elif kind == "phase_end" and barriers and facts.get("write_cache") == _WRITE_THROUGH:
            barriers.append(OFF if barriers[-1] == ON else barriers[-1])
        elif kind == "built" and event.get("part") == "file_system" and not alignment.growing:
            made.append(_format(facts))
    return Stood(
        where=where,
        made=made,
        aligned=alignment.verdict,
        alignment=alignment.sentences,
        # One phase without them is a figure without them.
        barriers=OFF if OFF in barriers else barriers[-1] if barriers else None,
    )


def where_of(campaign: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """The fields of *where* for a trial: those of its campaign, with the guest's own where it has one."""
    if trial.get("place") != GUEST:
        return campaign
    return campaign | {"place": GUEST, GUEST: {key: trial.get(key) for key in _MACHINE}}


def made_hash(what: str, made: list[dict[str, Any]]) -> str | None:
    """The *made* hash: of the configuration and of what mkfs made of it; None where it made nothing."""
    if not made:
        return None
    return hashlib.sha256(canonical({"what": what, "made": made}).encode()).hexdigest()


def _format(facts: dict[str, Any]) -> dict[str, Any]:
    found = {key: facts[key] for key in FORMAT if key in facts}
    features = found.get("features")
    if isinstance(features, list):  # a set: the order of its names means nothing
        found["features"] = sorted(map(str, features))
    return found
