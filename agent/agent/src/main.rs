//! `fsdyno-agent`: the half of fsdyno that touches a disk. Six verbs, all JSON.
//!
//! It has no opinion and no memory: no statistics, no matrix, no database. What it may destroy is
//! named on its own command line, never in what it reads.

mod align;
mod channel;
mod describe;
mod facts;
mod guests;
mod here;
mod layers;
mod listener;
mod phases;
mod place;
mod proof;
mod run;
mod schema;
mod shell;
mod stop;
mod survey;
mod trial;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fsdyno_spec::outcome::Reason;
use serde::Serialize;

/// Builds storage stacks, loads and checks them, and says in JSON what happened.
#[derive(Parser)]
#[command(name = "fsdyno-agent", version)]
struct Cli {
    /// Folder for ledgers and the rig's lock.
    #[arg(long, env = "FSDYNO_STATE", value_name = "DIR", global = true)]
    state: Option<PathBuf>,
    /// Folder for backing files and mount points [default: work, below the state folder].
    #[arg(long, env = "FSDYNO_WORK", value_name = "DIR", global = true)]
    work: Option<PathBuf>,
    /// Folder with the kernels of guests [default: fsdyno below the user's or the system's cache folder].
    #[arg(long, env = "FSDYNO_CACHE", value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// The JSON Schemas of everything that crosses the waist.
    Schema,
    /// The tables: file systems with their options, phases, workloads, metrics.
    Describe,
    /// What this host can do, with reasons; or what a live stack is like.
    Survey {
        /// A path or a block device: the stack below it, read without changing anything.
        #[arg(long, value_name = "TARGET")]
        stack: Option<PathBuf>,
    },
    /// What to tell mkfs, LVM and the kernel of an array.
    Align(align::Options),
    /// Runs trials: requests on standard input, events on standard output, one JSON line each.
    Run {
        /// A real block device, by its link below /dev/disk/by-id, whose contents may be lost.
        #[arg(long, value_name = "DEVICE")]
        destroy: Vec<PathBuf>,
    },
    /// Undoes what dead agents left, and says what.
    Clean,
    /// `run`, as the first process of a guest starts it.
    #[command(hide = true)]
    Guest,
}

fn main() -> ExitCode {
    if fsdyno_machine::is_first_process() {
        fsdyno_machine::first_process("guest");
    }
    if fsdyno_machine::is_module_request() {
        return fsdyno_machine::module_request();
    }
    let cli = Cli::parse();
    let state = cli.state.unwrap_or_else(default_state);
    let work = cli.work.unwrap_or_else(|| state.join("work"));
    let cache = cli.cache.unwrap_or_else(default_cache);
    match cli.verb {
        Verb::Schema => print(&schema::schema()),
        Verb::Describe => print(&describe::describe()),
        Verb::Survey { stack: None } => print(&survey::survey(&state, &work, &cache)),
        Verb::Survey { stack: Some(target) } => answer_apart(|| survey::stack(&target)),
        Verb::Align(options) => answer_apart(|| align::align(&options)),
        Verb::Run { destroy } => {
            run::run(fsdyno_stack::RigOptions { state, work, destroy, ..Default::default() }, cache)
        }
        Verb::Guest => run::run_in_guest(),
        Verb::Clean => {
            let cleaned = fsdyno_stack::clean(&state);
            print(&cleaned);
            if cleaned.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// `/var/lib/fsdyno` for root; else the user's own state folder (XDG base directories).
fn default_state() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/fsdyno");
    }
    of_user("XDG_STATE_HOME", ".local/state")
}

/// `/var/cache/fsdyno` for root; else in the user's own cache folder.
fn default_cache() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/cache/fsdyno");
    }
    of_user("XDG_CACHE_HOME", ".cache")
}

/// Our folder below one of the user's base directories.
fn of_user(variable: &str, below_home: &str) -> PathBuf {
    let named = std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    named
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(below_home)))
        .unwrap_or_else(std::env::temp_dir)
        .join("fsdyno")
}

/// An answer, or as `refused` the reason why there is none. It looks at devices that may hang, and is found apart:
/// this process ends when the answer is there, whatever still waits for them.
fn answer_apart<T: Serialize>(answer: impl FnOnce() -> Result<T, Reason>) -> ExitCode {
    let found = fsdyno_stack::apart(|| match answer() {
        Ok(value) => text(&value),
        Err(reason) => [REFUSED, &text(&serde_json::json!({ "refused": reason }))].concat(),
    });
    match found {
        Ok(found) => match found.strip_prefix(REFUSED) {
            Some(refused) => {
                write(refused);
                ExitCode::FAILURE
            }
            None => write(&found),
        },
        Err(error) => {
            eprintln!("fsdyno-agent: no answer was found: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What no JSON begins with, in front of a refusal.
const REFUSED: &[u8] = b"!";

fn print(value: &impl Serialize) -> ExitCode {
    write(&text(value))
}

fn text(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}

fn write(text: &[u8]) -> ExitCode {
    match std::io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
