//! A plan's own words for mkfs and mount reach no device or file but the trial's own.

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Image, UUID, find as installed, given, run};
use fsdyno_filesystems::{FileSystem, TABLE, Target, find};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use serde_json::json;

fn row(name: &str) -> &'static FileSystem {
    find(name).expect("a row")
}

fn refusal(name: &str, option: &str, words: &[&str]) -> Option<Reason> {
    row(name).options(&given(json!({ option: words }))).err()
}

#[test]
fn each_file_system_refuses_what_could_reach_elsewhere_and_names_the_word() {
    let mke2fs: &[(&[&str], &str)] = &[
        (&["/dev/sdb"], "/dev/sdb"),
        (&["8192"], "8192"),
        (&["-v", "sdb"], "sdb"),
        (&["--", "sdb"], "--"),
        (&["-J", "device=LABEL=log"], "device=LABEL=log"),
        (&["-Jsize=4,device=sdb1"], "-Jsize=4,device=sdb1"),
        (&["-Jdevice=LABEL=log"], "-Jdevice=LABEL=log"),
        (&["-O", "Journal_Dev"], "Journal_Dev"),
        (&["-d", "tree"], "-d"),
        (&["-l", "blocks"], "-l"),
        (&["-z", "undo"], "-z"),
        (&["-M", "mnt"], "-M"),
        (&["-F"], "-F"),
        (&["-vF"], "-vF"),
        (&["-U", UUID], "-U"),
        (&["-t", "ext2"], "-t"),
        (&["-n"], "-n"),
        (&["-S"], "-S"),
        (&["-J"], "-J"),
    ];
    let xfs: &[(&[&str], &str)] = &[
        (&["sdb"], "sdb"),
        (&["-l", "logdev=sdb"], "logdev=sdb"),
        (&["-lsize=8m,logdev=sdb"], "-lsize=8m,logdev=sdb"),
        (&["-llogdev=sdb"], "-llogdev=sdb"),
        (&["-l", "size=8m,name=sdb"], "size=8m,name=sdb"),
        (&["-r", "rtdev=sdb"], "rtdev=sdb"),
        (&["-d", "name=sdb"], "name=sdb"),
        (&["-d", "file"], "file"),
        (&["-p", "proto"], "-p"),
        (&["-c", "options=conf"], "-c"),
        (&["-f"], "-f"),
        (&["-Kf"], "-Kf"),
        (&["-N"], "-N"),
        (&["-q", "-b"], "-b"),
    ];
    let btrfs: &[(&[&str], &str)] = &[
        (&["/dev/sdb"], "/dev/sdb"),
        (&["sdb"], "sdb"),
        (&["-d", "raid0", "sdb"], "sdb"),
        (&["--csum=xxhash", "sdb"], "sdb"),
        (&["-M", "sdb"], "sdb"),
        (&["--", "sdb"], "--"),
        (&["--rootdir=tree"], "--rootdir=tree"),
        (&["-r", "tree"], "-r"),
        (&["--root", "tree"], "--root"),
        (&["--dat", "single"], "--dat"),
        (&["-qf"], "-qf"),
        (&["--force"], "--force"),
        (&["--uuid", UUID], "--uuid"),
        (&["--mixed=yes"], "--mixed=yes"),
        (&["--csum"], "--csum"),
        (&["--csum", "--mixed"], "--csum"),
    ];
    let jfs: &[(&[&str], &str)] = &[
        (&["-j", "sdb"], "-j"),
        (&["-J", "device=sdb"], "device=sdb"),
        (&["sdb"], "sdb"),
        (&["-L", "x"], "-L"),
    ];
    let reiserfs: &[(&[&str], &str)] = &[
        (&["-j", "sdb"], "-j"),
        (&["--journal-device=sdb"], "--journal-device=sdb"),
        (&["-B", "bad"], "-B"),
        (&["-f"], "-f"),
        (&["-u", UUID], "-u"),
        (&["sdb", "100"], "sdb"),
    ];
    let nilfs2: &[(&[&str], &str)] =
        &[(&["-f"], "-f"), (&["-n"], "-n"), (&["-L", "x"], "-L"), (&["sdb"], "sdb")];
    let f2fs: &[(&[&str], &str)] = &[
        (&["-c", "sdb"], "-c"),
        (&["-csdb"], "-csdb"),
        (&["-g", "android"], "-g"),
        (&["-U", UUID], "-U"),
        (&["-i", "100"], "100"),
    ];
    let ntfs: &[(&[&str], &str)] = &[
        (&["-F"], "-F"),
        (&["-n"], "-n"),
        (&["-L", "x"], "-L"),
        (&["-T", "100"], "100"),
        (&["--force"], "--force"),
    ];
    let tables = [
        ("ext2", mke2fs),
        ("ext3", mke2fs),
        ("ext4", mke2fs),
        ("xfs", xfs),
        ("btrfs", btrfs),
        ("jfs", jfs),
        ("reiserfs", reiserfs),
        ("nilfs2", nilfs2),
        ("f2fs", f2fs),
        ("ntfs", ntfs),
    ];
    for (name, cases) in tables {
        for (words, culprit) in cases {
            let reason = refusal(name, "extra_mkfs", words).unwrap_or_else(|| panic!("{name}: {words:?}"));
            assert!(reason.message.contains("`extra_mkfs`"), "{reason:?}");
            assert!(reason.message.contains(&format!("`{culprit}`")), "{words:?}: {reason:?}");
            assert!(reason.advice.is_some(), "{reason:?}");
        }
    }
}

#[test]
fn each_file_system_still_takes_its_own_flags() {
    let mke2fs: &[&[&str]] = &[
        &["-J", "size=16"],
        &["-Jsize=16", "-v", "-q"],
        &["-E", "packed_meta_blocks=1", "-O", "^metadata_csum", "-b1024", "-G", "64"],
        &["-L", "a label", "-N", "5000", "-T", "news", "-e", "remount-ro", "-D"],
    ];
    let xfs: &[&[&str]] = &[
        &["-b", "size=1024", "-l", "size=64m,version=2", "-m", "reflink=0"],
        &["-dagcount=8", "-K", "-i", "maxpct=5", "-n", "size=8k", "-s", "size=4096", "-q", "-L", "mine"],
    ];
    let btrfs: &[&[&str]] = &[
        &["--csum", "xxhash", "-n", "32768", "-L", "a label"],
        &["--csum=sha256", "-M", "-n4096", "--features", "^no-holes", "-q", "--data=single", "-R", "quota"],
    ];
    let tables = [("ext2", mke2fs), ("ext3", mke2fs), ("ext4", mke2fs), ("xfs", xfs), ("btrfs", btrfs)];
    for (name, cases) in tables {
        for words in cases {
            assert_eq!(refusal(name, "extra_mkfs", words), None, "{name}: {words:?}");
        }
    }
}

#[test]
fn a_mount_reaches_no_other_device_or_file() {
    for fs in TABLE {
        for word in [
            "logdev=sdb",
            "rtdev=sdb",
            "device=sdb",
            "journal_dev=0x801",
            "journal_path=log",
            "source=sdb",
            "usrjquota=aquota.user",
            "grpjquota=aquota.group",
            "subvol=/other",
            "compress=zstd,device=sdb",
        ] {
            let reason = refusal(fs.name, "extra_mount", &["noatime", word]).expect(word);
            assert!(reason.message.contains("`extra_mount`"), "{reason:?}");
            assert!(reason.message.contains(&format!("`{word}`")) && reason.advice.is_some(), "{reason:?}");
        }
        let usual =
            ["stripe=16", "nodiratime", "discard", "compress=zstd:3", "usrquota", "ro", "huge=always"];
        assert_eq!(refusal(fs.name, "extra_mount", &usual), None, "{}", fs.name);
    }
}

/// A device or file that a plan names, though it is not the trial's: all of it must stay as it is.
struct Decoy {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Decoy {
    const CONTENT: &[u8] = b"what somebody still needs";
    /// Large enough for each tool's least.
    const SIZE: u64 = 400 << 20;

    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("decoy");
        std::fs::write(&path, Self::CONTENT).expect("a decoy");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the decoy");
        file.set_len(Self::SIZE).expect("a sparse decoy");
        Self { folder, path }
    }

    fn is_whole(&self) -> bool {
        let now = std::fs::read(&self.path).expect("the decoy");
        let zeros = vec![0; 1 << 20];
        now.len() as u64 == Self::SIZE
            && now.starts_with(Self::CONTENT)
            && now[Self::CONTENT.len()..].chunks(zeros.len()).all(|chunk| chunk == &zeros[..chunk.len()])
            && std::fs::read_dir(self.folder.path()).expect("its folder").count() == 1
    }
}

/// Words with `DECOY` for the path of the decoy, and whether the bare tool would destroy it.
const ATTACKS: &[(&str, &[&str], bool)] = &[
    ("ext4", &["DECOY"], false),
    ("ext4", &["DECOY", "4096", "--"], false),
    ("ext4", &["-J", "device=DECOY"], false),
    ("ext4", &["-z", "DECOY.undo"], true),
    ("xfs", &["DECOY"], false),
    ("xfs", &["-l", "logdev=DECOY,size=64m"], true),
    ("xfs", &["-llogdev=DECOY,size=64m"], true),
    ("btrfs", &["DECOY"], true),
    ("f2fs", &["-c", "DECOY"], false),
    ("reiserfs", &["-j", "DECOY"], true),
    ("jfs", &["-j", "DECOY"], false),
    ("btrfs", &["-d", "raid0", "DECOY"], true),
    ("btrfs", &["--csum=xxhash", "--", "DECOY"], true),
];

#[test]
fn a_decoy_that_a_plan_names_is_never_touched() {
    for (name, words, _) in ATTACKS {
        let (fs, decoy, target) = (row(name), Decoy::new(), Image::new(Bytes(Decoy::SIZE)));
        let path = decoy.path.to_str().expect("a plain path");
        let words: Vec<_> = words.iter().map(|word| word.replace("DECOY", path)).collect();
        // What the agent does with a plan: check it, then run what it means.
        let refused = match fs.options(&given(json!({ "extra_mkfs": words }))) {
            Err(reason) => reason.message.contains(path),
            Ok(options) => {
                let made = fs.mkfs(&options, &Target::plain(target.name(), target.size, &target.uuid, true));
                run(&made.expect("a command line"));
                false
            }
        };
        assert!(decoy.is_whole(), "{name} {words:?}: the decoy was written to");
        assert!(refused, "{name} {words:?}: taken");
    }
}

#[test]
fn the_bare_tools_would_destroy_the_decoy() {
    for (name, words, _) in ATTACKS.iter().filter(|(_, _, destroys)| *destroys) {
        let (fs, decoy, target) = (row(name), Decoy::new(), Image::new(Bytes(Decoy::SIZE)));
        let path = decoy.path.to_str().expect("a plain path");
        let none = Default::default();
        let mut command = fs
            .mkfs(&none, &Target::plain(target.name(), target.size, &target.uuid, true))
            .expect("a command");
        let Some(program) = installed(&command.program) else {
            eprintln!("SKIPPED: {} is not installed", command.program);
            continue;
        };
        let device = command.args.pop().expect("the device");
        command.args.extend(words.iter().map(|word| word.replace("DECOY", path)));
        command.args.push(device);
        let output = Command::new(program).args(&command.args).stdin(Stdio::null()).output();
        let said = String::from_utf8_lossy(&output.expect("the program starts").stderr).into_owned();
        assert!(!decoy.is_whole(), "{}: it did not, so the case proves nothing: {said}", command.shell());
    }
}

/// The flags of the real tools, all of them, as their own parsers have them (`:` takes a value): the
/// test must not learn from the table that it tests.
fn real_flags(program: &str) -> (&'static str, &'static [(&'static str, bool)]) {
    match program {
        "mke2fs" => ("b:cd:e:g:i:jl:m:no:qr:s:t:vC:DE:FG:I:J:KL:M:N:O:R:ST:U:Vz:", &[]),
        "mkfs.xfs" => ("b:c:d:i:l:L:m:n:KNp:qr:s:CfV", &[]),
        "mkfs.btrfs" => (
            "A:b:fl:n:s:m:d:L:R:O:r:U:VvMKq",
            &[
                ("byte-count", true),
                ("csum", true),
                ("checksum", true),
                ("data", true),
                ("features", true),
                ("force", false),
                ("help", false),
                ("label", true),
                ("leafsize", true),
                ("metadata", true),
                ("mixed", false),
                ("nodesize", true),
                ("nodiscard", false),
                ("quiet", false),
                ("rootdir", true),
                ("runtime-features", true),
                ("sectorsize", true),
                ("shrink", false),
                ("uuid", true),
                ("verbose", false),
                ("version", false),
            ],
        ),
        "mkfs.jfs" => ("cj:J:L:Oqs:V", &[]),
        "mkfs.reiserfs" => (
            "b:j:s:o:t:B:h:u:l:fqdV",
            &[
                ("block-size", true),
                ("journal-device", true),
                ("journal-size", true),
                ("journal-offset", true),
                ("transaction-max-size", true),
                ("badblocks", true),
                ("hash", true),
                ("uuid", true),
                ("label", true),
                ("format", true),
                ("force", false),
                ("quiet", false),
                ("debug", false),
            ],
        ),
        "mkfs.nilfs2" => ("b:B:cfhKL:m:nO:P:qvV", &[]),
        "mkfs.f2fs" => ("qa:c:C:d:e:E:g:il:mo:O:rR:s:S:z:t:T:U:Vfw:", &[]),
        "mkntfs" => (
            "c:CfFhH:IlL:np:qQs:S:TUvVz:",
            &[
                ("cluster-size", true),
                ("debug", false),
                ("enable-compression", false),
                ("fast", false),
                ("force", false),
                ("heads", true),
                ("help", false),
                ("label", true),
                ("license", false),
                ("mft-zone-multiplier", true),
                ("no-action", false),
                ("no-indexing", false),
                ("partition-start", true),
                ("quick", false),
                ("quiet", false),
                ("sector-size", true),
                ("sectors-per-track", true),
                ("with-uuid", false),
                ("verbose", false),
                ("version", false),
                ("zero-time", false),
            ],
        ),
        other => panic!("no table for {other}"),
    }
}

/// What `getopt_long` makes of an argument vector: flags by their names, and positions of the words
/// that are none. None if it would refuse it.
fn getopt(program: &str, args: &[String]) -> Option<(Vec<String>, Vec<usize>)> {
    let (short, long) = real_flags(program);
    let (mut flags, mut positional) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < args.len() {
        let word = args[at].as_str();
        if word == "--" {
            positional.extend(at + 1..args.len());
            break;
        } else if let Some(name) = word.strip_prefix("--") {
            let (name, glued) = name.split_once('=').map_or((name, false), |(name, _)| (name, true));
            let exact = long.iter().find(|(known, _)| *known == name);
            let (known, value) = exact.or_else(|| {
                let mut begun = long.iter().filter(|(known, _)| known.starts_with(name));
                begun.next().filter(|_| begun.next().is_none())
            })?;
            flags.push(format!("--{known}"));
            match (value, glued) {
                (true, false) => at += 1,
                (false, true) => return None,
                _ => {}
            }
        } else if word.len() > 1 && word.starts_with('-') {
            for (n, letter) in word.char_indices().skip(1) {
                let place = short.find(letter).filter(|_| letter != ':')?;
                flags.push(format!("-{letter}"));
                if short[place + 1..].starts_with(':') {
                    at += usize::from(n + letter.len_utf8() == word.len());
                    break;
                }
            }
        } else {
            positional.push(at);
        }
        at += 1;
    }
    (at <= args.len()).then_some((flags, positional))
}

/// Pseudo-random numbers (Steele, Lea and Flood's SplitMix64), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A word as plans have, or as a careless or hostile one would.
    fn word(&mut self, program: &str) -> String {
        let values = ["4096", "size=4", "a", "-", "--", "sdb", "=x", "", "-E", "x,y=1", "^f", "é", "-4"];
        let (short, long) = real_flags(program);
        let letters: Vec<char> = short.chars().filter(|letter| *letter != ':').collect();
        let letter = letters[self.below(letters.len())];
        let name = if long.is_empty() { "long" } else { long[self.below(long.len())].0 };
        let cut = 1 + self.below(name.len());
        let value = self.pick(&values);
        match self.below(7) {
            0 | 1 => format!("-{letter}"),
            2 => format!("-{letter}{value}"),
            3 => format!("--{name}"),
            4 => format!("--{}={value}", &name[..cut]),
            _ if value.is_empty() => "b".to_string(),
            _ => value.to_string(),
        }
    }
}

#[test]
fn whatever_words_are_taken_the_device_is_the_only_positional_and_the_last() {
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let program = fs.disk.as_ref().expect("a disk").mkfs.name;
        let mut random = Random(42);
        let (mut taken, mut long) = (0, 0);
        for _ in 0..60_000 {
            let words: Vec<_> = (0..=random.below(5)).map(|_| random.word(program)).collect();
            let Ok(options) = fs.options(&given(json!({ "extra_mkfs": words }))) else { continue };
            taken += 1;
            long += usize::from(words.len() > 2);
            // Without force, and a device that no flag could be: what is found is the plan's own.
            let command = fs
                .mkfs(&options, &Target::plain("/dev/loop0", Bytes::mib(512), UUID, false))
                .expect("a command");
            let (flags, positional) = getopt(program, &command.args).expect("what the tool can parse");
            assert_eq!(positional, [command.args.len() - 1], "{words:?}: {}", command.shell());
            assert_eq!(command.args.last().map(String::as_str), Some("/dev/loop0"), "{words:?}");
            let bare =
                fs.mkfs(&Default::default(), &Target::plain("/dev/loop0", Bytes::mib(512), UUID, false));
            let (ours, _) = getopt(program, &bare.expect("a command").args).expect("our own words");
            let forbidden: &[&str] = match program {
                "mke2fs" => &["-F", "-U", "-V", "-z", "-n", "-l", "-d", "-S", "-t"],
                "mkfs.xfs" => &["-f", "-p", "-c", "-N", "-V"],
                "mkfs.jfs" => &["-j", "-J", "-L", "-V"],
                "mkfs.reiserfs" => &["-f", "--force", "-j", "--journal-device", "-B", "-u", "--uuid", "-V"],
                "mkfs.nilfs2" => &["-f", "-n", "-L", "-V", "-h"],
                "mkfs.f2fs" => &["-f", "-g", "-c", "-U", "-S", "-V"],
                "mkntfs" => &["-F", "--force", "-L", "--label", "-n", "--no-action", "-V", "--version", "-h"],
                _ => &["-f", "--force", "-U", "--uuid", "-r", "--rootdir", "-V", "--version", "--help"],
            };
            for flag in forbidden {
                let count = |list: &[String]| list.iter().filter(|known| known == flag).count();
                assert_eq!(count(&flags), count(&ours), "{words:?}: {}", command.shell());
            }
        }
        // These take one to three flags, so hardly any three words are right.
        let few = ["jfs", "reiserfs", "nilfs2"].contains(&fs.name);
        let enough = if few { taken > 300 } else { taken > 800 && long > 20 };
        assert!(enough, "{}: {taken} taken, {long} long: it proves little", fs.name);
    }
}
