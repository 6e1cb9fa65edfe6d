//! How much of the page cache may be dirty, for the whole host: `vm.dirty_bytes` and
//! `vm.dirty_background_bytes`. Each is one of a pair with a ratio: setting one makes the other 0. What
//! the host had is on record before it is changed, and comes back when the trial ends, however it ends;
//! a limit that somebody else has changed meanwhile stays as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_spec::trial::Settings;
use fsdyno_spec::units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::failure::Failure;
use crate::ledger::{Entry, Ledger};
use crate::settings::Facts;
use crate::sysfs;

/// One of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Write-back begins.
    Background,
    /// Writers wait.
    Dirty,
}

/// What a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the memory that can be dirtied.
    Ratio(u64),
}

impl Limit {
    /// Its name in a plan and below `/proc/sys/vm`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "dirty_background_bytes",
            Self::Dirty => "dirty_bytes",
        }
    }

    /// What `/proc/vmstat` calls the pages that it comes to.
    fn threshold(self) -> &'static str {
        match self {
            Self::Background => "nr_dirty_background_threshold",
            Self::Dirty => "nr_dirty_threshold",
        }
    }

    fn file(self, value: Value) -> PathBuf {
        Path::new("/proc/sys/vm").join(match (self, value) {
            (_, Value::Bytes(_)) => self.name(),
            (Self::Background, Value::Ratio(_)) => "dirty_background_ratio",
            (Self::Dirty, Value::Ratio(_)) => "dirty_ratio",
        })
    }

    /// What it is now.
    ///
    /// # Errors
    /// Of `/proc/sys`.
    pub fn get(self) -> io::Result<Value> {
        match sysfs::number(&self.file(Value::Bytes(0)))? {
            0 => Ok(Value::Ratio(sysfs::number(&self.file(Value::Ratio(0)))?)),
            bytes => Ok(Value::Bytes(bytes)),
        }
    }

    /// Sets it and reads it back.
    ///
    /// # Errors
    /// If the kernel refuses, or takes something else.
    pub fn put(self, value: Value) -> Result<(), Failure> {
        let path = self.file(value);
        let number = match value {
            Value::Bytes(n) | Value::Ratio(n) => n,
        };
        let said = fs::write(&path, number.to_string()).and_then(|()| self.get());
        let problem = match said {
            Ok(taken) if taken == value => return Ok(()),
            Ok(taken) => format!("the kernel took {taken:?} instead of {value:?} for vm.{}", self.name()),
            Err(error) => format!("the kernel refuses {number} for {}: {error}", path.display()),
        };
        Err(Failure::failed(problem, "give two pages (8 KiB) at least; it needs root"))
    }

    /// Puts back what was found, if it is still one of ours; true if it was changed.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn restore(self, found: Value, ours: &[u64]) -> Result<bool, Failure> {
        let now = self.get().map_err(|e| Failure::io("cannot read", &self.file(found), &e))?;
        match now {
            Value::Bytes(bytes) if now != found && ours.contains(&bytes) => self.put(found).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// What a trial has changed of the limits.
#[derive(Debug, Default)]
pub struct Limits {
    changed: Vec<(Limit, Value, Vec<u64>)>,
}

impl Limits {
    /// Puts what is asked for and proves it by the thresholds that the kernel works with.
    ///
    /// # Errors
    /// If it cannot be recorded, the kernel does not take it, or comes to another threshold.
    pub fn apply(&mut self, ledger: &mut Ledger, settings: &Settings) -> Result<Facts, Failure> {
        let wanted =
            [(Limit::Dirty, settings.dirty_bytes), (Limit::Background, settings.dirty_background_bytes)];
        let wanted: Vec<_> = wanted.into_iter().filter_map(|(limit, bytes)| Some((limit, bytes?))).collect();
        for (limit, bytes) in &wanted {
            self.announce(ledger, *limit, bytes.0)?;
            limit.put(Value::Bytes(bytes.0))?;
        }
        let mut facts = Facts::new();
        for (limit, bytes) in wanted {
            let pages = threshold(limit)?;
            let page = rustix::param::page_size() as u64;
            if pages != bytes.0.div_ceil(page) {
                let message = format!(
                    "vm.{} is {bytes}, but the kernel works with {}",
                    limit.name(),
                    Bytes(pages * page)
                );
                let advice =
                    "`dirty_background_bytes` must be below `dirty_bytes`, else the kernel halves it";
                return Err(Failure::failed(message, advice));
            }
            facts.insert(limit.name().into(), json!(bytes));
        }
        if facts.is_empty() {
            return Ok(facts);
        }
        // Also the one that was not asked for: it follows the other.
        for limit in [Limit::Dirty, Limit::Background] {
            let name = limit.threshold().trim_start_matches("nr_");
            facts.insert(format!("{name}_pages"), json!(threshold(limit)?));
        }
        Ok(facts)
    }

    /// Records what the host has, and what it is about to get.
    fn announce(&mut self, ledger: &mut Ledger, limit: Limit, bytes: u64) -> Result<(), Failure> {
        let fail = |error: io::Error| Failure::io("cannot record", &limit.file(Value::Bytes(0)), &error);
        let index = match self.changed.iter().position(|(of, ..)| *of == limit) {
            Some(index) => index,
            None => {
                self.changed.push((limit, limit.get().map_err(fail)?, Vec::new()));
                self.changed.len() - 1
            }
        };
        let (_, found, ours) = &mut self.changed[index];
        if !ours.contains(&bytes) {
            ours.push(bytes);
        }
        ledger.record(&Entry::Dirty { limit, found: *found, ours: ours.clone() }).map_err(fail)
    }

    /// Gives the host its own limits back.
    ///
    /// # Errors
    /// The first that cannot be put back.
    pub fn restore(&mut self) -> Result<(), Failure> {
        while let Some((limit, found, ours)) = self.changed.last() {
            limit.restore(*found, ours)?;
            self.changed.pop();
        }
        Ok(())
    }
}

/// Pages that a limit comes to, as the kernel says.
fn threshold(limit: Limit) -> Result<u64, Failure> {
    let path = Path::new("/proc/vmstat");
    let text = fs::read_to_string(path).map_err(|error| Failure::io("cannot read", path, &error))?;
    let found = text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == limit.threshold()).then(|| value.trim().parse().ok())?
    });
    found.ok_or_else(|| {
        let message = format!("{} does not tell {}", path.display(), limit.threshold());
        Failure::failed(message, "leave the dirty limits out on this kernel")
    })
}
