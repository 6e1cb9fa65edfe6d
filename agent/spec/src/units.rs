//! Units that the type system keeps apart. On the wire they are plain numbers in base units; the
//! schema's `format` tells a plan reader that people may write `128K` or `30s` there.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A size in bytes. Schema format `bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A time in seconds, never negative. Schema format `seconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Bytes {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
}

/// Binary multiples, as mkfs tools print them: `128 KiB`, `1.5 GiB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let step = (self.0.max(1).ilog2() / 10).min(NAMES.len() as u32 - 1);
        let value = self.0 as f64 / (1u64 << (10 * step)) as f64;
        if self.0.is_multiple_of(1u64 << (10 * step)) {
            write!(f, "{value:.0} {}", NAMES[step as usize])
        } else {
            write!(f, "{value:.1} {}", NAMES[step as usize])
        }
    }
}

impl Seconds {
    /// As a [`Duration`]; negative and non-finite values become zero.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::try_from_secs_f64(self.0).unwrap_or(Duration::ZERO)
    }
}

impl From<Duration> for Seconds {
    fn from(d: Duration) -> Self {
        Self(d.as_secs_f64())
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "format": "bytes" })
    }
}

impl JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "format": "seconds" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_the_tools_print_them() {
        assert_eq!(Bytes::kib(128).to_string(), "128 KiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5 GiB");
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(512).to_string(), "512 B");
    }

    #[test]
    fn a_negative_time_is_no_time() {
        assert_eq!(Seconds(-1.0).duration(), Duration::ZERO);
        assert_eq!(Seconds(f64::NAN).duration(), Duration::ZERO);
    }
}
