//! The tables that Python shows and reads samples by: file systems, phases, workloads, and what each
//! metric means. Whoever derives a sample from events follows the sentence given here; a changed
//! sentence raises the metric's version.

use std::collections::BTreeMap;

use fsdyno_spec::describe::{Describe, Direction, MetricInfo};
use fsdyno_spec::trial::{PHASE_KINDS, Phase};
use fsdyno_spec::{ENGINE, PROTOCOL};

/// The answer of `describe`.
pub fn describe() -> Describe {
    Describe {
        protocol: PROTOCOL,
        engine: ENGINE,
        filesystems: fsdyno_filesystems::TABLE.iter().map(|fs| fs.info()).collect(),
        metrics: METRICS.iter().map(Metric::info).collect(),
        phases: phases(),
        workloads: WORKLOADS.iter().map(|(kind, text)| (kind.to_string(), text.to_string())).collect(),
    }
}

/// What phases do, in the words of their type.
fn phases() -> BTreeMap<String, String> {
    let schema = schemars::schema_for!(Phase).to_value();
    let text = |kind: &str| schema["properties"][kind]["description"].as_str().map(str::to_string);
    PHASE_KINDS.iter().filter_map(|kind| Some((kind.to_string(), text(kind)?))).collect()
}

/// Workload kinds with what they stand for.
const WORKLOADS: &[(&str, &str)] = &[
    (
        "random",
        "Reads, writes or a mix of both at random places of a file set, with a number of threads and of operations \
         in flight each. Stands for databases and mail stores; as sysbench fileio rnd*, fio and the seeks of \
         bonnie++.",
    ),
    (
        "stream",
        "Writes, rewrites or reads files from their start to their end. Stands for backups, media and logs; as dd, \
         the block tests of bonnie++, sysbench fileio seq* and IOzone.",
    ),
    (
        "tree",
        "Creates, stats, reads or deletes many small files in many directories. Stands for source trees, mail \
         folders and caches; as fs_mark, mdtest and the create and delete tests of bonnie++.",
    ),
];

struct Metric {
    name: &'static str,
    unit: &'static str,
    direction: Direction,
    definition: &'static str,
}

impl Metric {
    fn info(&self) -> MetricInfo {
        MetricInfo {
            name: self.name.to_string(),
            unit: self.unit.to_string(),
            direction: self.direction,
            version: 1,
            definition: self.definition.to_string(),
        }
    }
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    direction: Direction,
    definition: &'static str,
) -> Metric {
    Metric { name, unit, direction, definition }
}

/// All metrics. They exist for phases that ended `ok`.
const METRICS: &[Metric] = &[
    metric(
        "wall_seconds",
        "s",
        Direction::Lower,
        "Wall time of the phase by the monotonic clock: `wall` of phase_end. Phases that write end with the data \
         on the device, so the final sync is inside.",
    ),
    metric(
        "operations_per_second",
        "1/s",
        Direction::Higher,
        "Sum of `count` over the workload's operations except fsync, mkdir and rmdir, divided by \
         `workload.elapsed` + `workload.sync` (total work / total time, the final sync included; starting threads \
         and opening rings is not). Absent if there was no such operation.",
    ),
    metric(
        "bytes_per_second",
        "B/s",
        Direction::Higher,
        "Sum of `bytes` over the workload's operations except fsync, mkdir and rmdir, divided by \
         `workload.elapsed` + `workload.sync`, as for operations. Absent if no bytes were moved.",
    ),
    metric(
        "latency_p50",
        "s",
        Direction::Lower,
        "Median latency of an operation: from the merged histograms of the workload's operations except fsync, \
         mkdir and rmdir. Absent below 20 operations.",
    ),
    metric(
        "latency_p99",
        "s",
        Direction::Lower,
        "99th percentile of the latency, from the same merged histogram. Absent below 1,000 operations.",
    ),
    metric(
        "latency_p999",
        "s",
        Direction::Lower,
        "99.9th percentile of the latency, from the same merged histogram. Absent below 10,000 operations.",
    ),
    metric(
        "sync_seconds",
        "s",
        Direction::Lower,
        "Time of the final sync of a workload, `workload.sync` of phase_end; it is part of wall_seconds. 0 for \
         loads that write nothing.",
    ),
    metric(
        "cpu_seconds",
        "s",
        Direction::Lower,
        "CPU time of the phase, user and system, of the agent and the tools that it ran: `cpu.user` + \
         `cpu.system`. Kernel threads are not in it.",
    ),
    metric(
        "reads",
        "1",
        Direction::Neither,
        "Read requests that the leaf devices completed during the phase: sum of `reads` over `leaves`. Absent \
         without leaves, as all counts of devices.",
    ),
    metric(
        "read_bytes",
        "B",
        Direction::Neither,
        "Bytes read from the leaf devices: sum of `read_bytes` over `leaves`.",
    ),
    metric(
        "writes",
        "1",
        Direction::Neither,
        "Write requests that the leaf devices completed: sum of `writes` over `leaves`.",
    ),
    metric(
        "write_bytes",
        "B",
        Direction::Neither,
        "Bytes written to the leaf devices: sum of `write_bytes` over `leaves`.",
    ),
    metric(
        "flushes",
        "1",
        Direction::Neither,
        "Cache flushes that the leaf devices completed: sum of `flushes` over `leaves`. Merged ones count once, \
         forced-unit-access writes do not count.",
    ),
    metric(
        "requests",
        "1",
        Direction::Neither,
        "Requests that the leaf devices completed: `reads` + `writes`, summed over `leaves`.",
    ),
    metric(
        "requests_per_operation",
        "1",
        Direction::Lower,
        "Requests at the leaf devices per operation of the workload: `requests` divided by the sum of `count` over \
         its operations except fsync, mkdir and rmdir. Absent without such operations.",
    ),
    metric(
        "member_read_per_written",
        "1",
        Direction::Lower,
        "Bytes read at the leaf devices per byte that the workload wrote: `read_bytes` divided by the sum of \
         `bytes` over its operations write and create. What a partial stripe costs in reads. Absent if the workload \
         wrote nothing, or read too.",
    ),
    metric(
        "member_written_per_written",
        "1",
        Direction::Lower,
        "Bytes written at the leaf devices per byte that the workload wrote: `write_bytes` divided by the same sum \
         as member_read_per_written. Copies, parity, journals and metadata are in it. Absent if the workload wrote \
         nothing.",
    ),
    metric(
        "flushes_per_fsync",
        "1",
        Direction::Neither,
        "Cache flushes at all leaf devices together per fsync of the workload: `flushes` divided by `count` of its \
         operation fsync. An array passes a flush to each member. Absent without fsyncs.",
    ),
    metric(
        "discards",
        "1",
        Direction::Neither,
        "Discards that the leaf devices completed: sum of `discards` over `leaves`.",
    ),
    metric(
        "discard_bytes",
        "B",
        Direction::Neither,
        "Bytes discarded on the leaf devices: sum of `discard_bytes` over `leaves`.",
    ),
    metric(
        "busy_share",
        "1",
        Direction::Neither,
        "CPU time that anybody used, of what the phase could use: `host.busy` / (`wall` × n), where n is the \
         workload's threads, at most the machine's CPUs, and 1 without a workload. Under 0.5 the phase waits for its \
         devices; other work on the machine can bring it above 1. Absent where the number of CPUs is not known.",
    ),
    metric(
        "tool_share",
        "1",
        Direction::Neither,
        "Share of the worker threads' time that fsdyno's own bookkeeping took: `workload.tool_cost.share`, 0 to 1, \
         from the calibration at start and the number of operations.",
    ),
];

/// The kinds that a schema of an enum with one key per kind names.
#[cfg(test)]
fn kinds(schema: &serde_json::Value) -> Vec<&str> {
    let branches = schema["oneOf"].as_array().into_iter().flatten();
    branches.filter_map(|branch| branch["required"][0].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_phase_and_workload_is_described() {
        let described = describe();
        assert_eq!(described.phases.len(), PHASE_KINDS.len());
        let workloads = schemars::schema_for!(fsdyno_spec::workload::Workload).to_value();
        let mut known = kinds(&workloads);
        known.sort_unstable();
        assert_eq!(described.workloads.keys().collect::<Vec<_>>(), known);
    }

    #[test]
    fn metrics_are_unique_in_base_units_and_defined_in_sentences() {
        let described = describe();
        for (n, metric) in described.metrics.iter().enumerate() {
            assert!(described.metrics[..n].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(["s", "1/s", "B/s", "B", "1"].contains(&metric.unit.as_str()), "{}", metric.name);
            assert!(metric.definition.ends_with('.') && metric.version >= 1, "{}", metric.name);
        }
    }

    #[test]
    fn file_systems_come_in_the_order_of_the_table() {
        let names: Vec<_> = describe().filesystems.into_iter().map(|fs| fs.name).collect();
        assert_eq!(names, fsdyno_filesystems::TABLE.iter().map(|fs| fs.name).collect::<Vec<_>>());
    }
}
