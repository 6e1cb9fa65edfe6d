//! Many small files: create, stat, read, delete. Directories are dealt to threads; names are made
//! in place; every call is relative to the leaf directory's descriptor.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fsdyno_probe::meter::Meter;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Claim, Order, SyncPolicy, Tree, TreeOp, WorkloadResult};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, openat, statat, unlinkat};
use rustix::io::{Errno, read, write};

use crate::buffer::Buffer;
use crate::content::Content;
use crate::crew::{self, Amount, Load, Operation, Stop};
use crate::failure::Failure;
use crate::names::{DirectoryName, FileName, Layout};
use crate::order::Permutation;
use crate::{Job, files, finish, settle};

/// Files larger than this are written and read in pieces of it.
const PIECE: u64 = 1 << 20;

pub(crate) fn run(job: &Job, tree: &Tree) -> Result<WorkloadResult, Failure> {
    let layout = Layout::of(job.dataset);
    if tree.op == TreeOp::Create {
        files::make_top(job)?;
    }
    let folders = if matches!(tree.op, TreeOp::Create | TreeOp::Delete) { layout.directories } else { 0 };
    let amount = Amount::Operations(layout.files + folders);
    let done = crew::run(job, &Growing { job, tree, layout }, tree.threads, amount)?;
    if tree.op == TreeOp::Delete {
        let top = files::top(job);
        rustix::fs::rmdir(&top).map_err(|e| Failure::kernel("remove", top.display(), e))?;
    }
    let sync = settle(job, matches!(tree.op, TreeOp::Create | TreeOp::Delete))?;
    let bytes = Bytes(layout.files * job.dataset.size.0);
    let claim = match tree.op {
        TreeOp::Create => Claim { written: bytes, inodes: layout.inodes(), ..Claim::default() },
        TreeOp::Stat => Claim::default(),
        TreeOp::Read => Claim { read: bytes, ..Claim::default() },
        TreeOp::Delete => Claim { inodes: -layout.inodes(), ..Claim::default() },
    };
    let size = job.dataset.size.0.min(PIECE) as usize;
    let prepare = match tree.op {
        TreeOp::Create if size > 0 => Content::new(job.seed, job.name, size).cost(size, false),
        _ => 0.0,
    };
    Ok(finish(job, "tree", tree.threads, done, claim, sync, prepare))
}

struct Growing<'a> {
    job: &'a Job<'a>,
    tree: &'a Tree,
    layout: Layout,
}

struct Hand {
    top: OwnedFd,
    content: Option<Content>,
    buffer: Buffer,
    files: Operation,
    folders: Operation,
    fsyncs: Operation,
}

/// A file as the hot path sees it.
struct Target<'a> {
    directory: BorrowedFd<'a>,
    name: &'a CStr,
    number: u64,
}

impl Growing<'_> {
    /// Calls `each` for every file of a directory, in the order asked for.
    #[inline]
    fn visit(
        &self,
        directory: u64,
        fd: BorrowedFd,
        stop: Stop,
        mut each: impl FnMut(&Target) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (first, count) = self.layout.within(directory);
        let mut name = FileName::of(first);
        match self.tree.order {
            Order::Sequential => {
                for number in first..first + count {
                    stop.check()?;
                    each(&Target { directory: fd, name: name.as_c_str(), number })?;
                    name.increment();
                }
            }
            Order::Random => {
                let order = Permutation::new(count, self.job.order_seed ^ directory);
                for index in 0..count {
                    stop.check()?;
                    let number = first + order.at(index);
                    name.set(number);
                    each(&Target { directory: fd, name: name.as_c_str(), number })?;
                }
            }
        }
        Ok(())
    }

    fn create(&self, file: &Target, hand: &mut Hand, meter: &mut Meter) -> Result<(), Failure> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let size = self.job.dataset.size.0;
        let fd = openat(file.directory, file.name, flags, files::FILE_MODE)
            .map_err(|e| self.failure("create", file.number, e))?;
        if let Some(content) = &mut hand.content {
            let key = content.key(file.number);
            let mut offset = 0;
            while offset < size {
                let length = PIECE.min(size - offset);
                let data = content.record(key, offset, length as usize);
                match write(&fd, data) {
                    Ok(n) if n as u64 == length => offset += length,
                    Ok(n) => {
                        return Err(self.short_write(fd.as_fd(), &data[n..], file.number, n as u64, length));
                    }
                    Err(errno) => return Err(self.failure("write", file.number, errno)),
                }
            }
        }
        if self.tree.sync == SyncPolicy::End {
            drop(fd);
            hand.files.lap(meter, size);
            return Ok(());
        }
        // The file's own time is what lies before and after its fsync, which is counted apart.
        let before = meter.split();
        fsync(&fd).map_err(|e| self.failure("fsync", file.number, e))?;
        let sync = meter.split();
        drop(fd);
        let after = meter.split();
        hand.fsyncs.recorder.record(sync);
        hand.files.recorder.record(before + after);
        hand.files.bytes += size;
        meter.count(size);
        Ok(())
    }

    fn stat(&self, file: &Target, hand: &mut Hand, meter: &mut Meter) -> Result<(), Failure> {
        let found = statat(file.directory, file.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| self.failure("stat", file.number, e))?;
        if found.st_size as u64 != self.job.dataset.size.0 {
            return Err(self.wrong_size(file.number, found.st_size as u64));
        }
        hand.files.lap(meter, 0);
        Ok(())
    }

    fn read(&self, file: &Target, hand: &mut Hand, meter: &mut Meter) -> Result<(), Failure> {
        let size = self.job.dataset.size.0;
        let fd = openat(file.directory, file.name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| self.failure("open", file.number, e))?;
        let mut got = 0;
        loop {
            // The last piece is asked for one byte more, so that a file that has grown is found too.
            let rest = size - got;
            let piece = rest.min(PIECE);
            let want = piece + u64::from(piece == rest);
            match read(&fd, &mut hand.buffer[..want as usize]) {
                Ok(n) if n as u64 == piece => got += piece,
                Ok(n) => return Err(self.wrong_size(file.number, got + n as u64)),
                Err(errno) => return Err(self.failure("read", file.number, errno)),
            }
            if got == size {
                break;
            }
        }
        drop(fd);
        hand.files.lap(meter, size);
        Ok(())
    }

    fn delete(&self, file: &Target, hand: &mut Hand, meter: &mut Meter) -> Result<(), Failure> {
        unlinkat(file.directory, file.name, AtFlags::empty())
            .map_err(|e| self.failure("delete", file.number, e))?;
        hand.files.lap(meter, 0);
        Ok(())
    }

    #[cold]
    fn failure(&self, doing: &str, file: u64, errno: Errno) -> Failure {
        let path = self.layout.path(self.job.root, self.job.name, file);
        match (errno, self.tree.op) {
            (Errno::EXIST, TreeOp::Create) => Failure::exists(self.job.name, path.display()),
            (Errno::NOENT, TreeOp::Stat | TreeOp::Read | TreeOp::Delete) => {
                Failure::missing(self.job.name, format_args!("{} is not there", path.display()))
            }
            _ => Failure::kernel(doing, path.display(), errno),
        }
    }

    #[cold]
    fn wrong_size(&self, file: u64, found: u64) -> Failure {
        let path = self.layout.path(self.job.root, self.job.name, file);
        Failure::short("read", path.display(), found, self.job.dataset.size.0)
    }

    /// A write that stopped half-way is asked to go on, so that the kernel says why.
    #[cold]
    fn short_write(&self, fd: BorrowedFd, rest: &[u8], file: u64, got: u64, want: u64) -> Failure {
        match write(fd, rest) {
            Err(errno) => self.failure("write", file, errno),
            Ok(_) => Failure::short(
                "write",
                self.layout.path(self.job.root, self.job.name, file).display(),
                got,
                want,
            ),
        }
    }

    #[cold]
    fn folder_failure(&self, doing: &str, directory: u64, errno: Errno) -> Failure {
        let path = files::top(self.job).join(DirectoryName::of(directory).as_str());
        match errno {
            Errno::NOENT => Failure::missing(self.job.name, format_args!("{} is not there", path.display())),
            Errno::EXIST => Failure::exists(self.job.name, path.display()),
            _ => Failure::kernel(doing, path.display(), errno),
        }
    }
}

impl Load for Growing<'_> {
    type Hand = Hand;

    fn prepare(&self, _: u64) -> Result<Hand, Failure> {
        let (job, size) = (self.job, self.job.dataset.size.0);
        let creates = self.tree.op == TreeOp::Create && size > 0;
        let reads = self.tree.op == TreeOp::Read;
        let (files, folders) = match self.tree.op {
            TreeOp::Create => ("create", "mkdir"),
            TreeOp::Stat => ("stat", ""),
            TreeOp::Read => ("read", ""),
            TreeOp::Delete => ("delete", "rmdir"),
        };
        Ok(Hand {
            top: files::open_top(job)?,
            content: creates.then(|| Content::new(job.seed, job.name, size.min(PIECE) as usize)),
            buffer: Buffer::new(if reads { PIECE.min(size) as usize + 1 } else { 0 }),
            files: Operation::new(files),
            folders: Operation::new(folders),
            fsyncs: Operation::new("fsync"),
        })
    }

    fn work(&self, worker: u64, hand: &mut Hand, meter: &mut Meter, stop: Stop) -> Result<(), Failure> {
        let op = self.tree.op;
        for directory in (worker..self.layout.directories).step_by(self.tree.threads as usize) {
            let name = DirectoryName::of(directory);
            if op == TreeOp::Create {
                mkdirat(&hand.top, name.as_c_str(), files::FOLDER_MODE)
                    .map_err(|e| self.folder_failure("make", directory, e))?;
                hand.folders.lap(meter, 0);
            }
            let fd = openat(&hand.top, name.as_c_str(), files::FOLDER, Mode::empty())
                .map_err(|e| self.folder_failure("open", directory, e))?;
            meter.skip();
            match op {
                TreeOp::Create => {
                    self.visit(directory, fd.as_fd(), stop, |file| self.create(file, hand, meter))?
                }
                TreeOp::Stat => {
                    self.visit(directory, fd.as_fd(), stop, |file| self.stat(file, hand, meter))?
                }
                TreeOp::Read => {
                    self.visit(directory, fd.as_fd(), stop, |file| self.read(file, hand, meter))?
                }
                TreeOp::Delete => {
                    self.visit(directory, fd.as_fd(), stop, |file| self.delete(file, hand, meter))?
                }
            }
            drop(fd);
            if op == TreeOp::Delete {
                meter.skip();
                unlinkat(&hand.top, name.as_c_str(), AtFlags::REMOVEDIR)
                    .map_err(|e| self.folder_failure("remove", directory, e))?;
                hand.folders.lap(meter, 0);
            }
        }
        Ok(())
    }

    fn report(&self, hand: Hand) -> (Vec<Operation>, Vec<String>) {
        let call = match self.tree.op {
            TreeOp::Create => "openat, write, close",
            TreeOp::Stat => "newfstatat",
            TreeOp::Read => "openat, read, close",
            TreeOp::Delete => "unlinkat",
        };
        (vec![hand.files, hand.fsyncs, hand.folders], vec![call.to_string()])
    }
}
