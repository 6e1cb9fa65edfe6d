//! Answers from a process of its own. A file of its own too: the copies of a test would hold the pipes of others.

use std::io;

use fsdyno_stack::apart;

#[test]
fn an_answer_is_had_and_what_still_waits_is_left_behind() {
    let (waits, never) = io::pipe().unwrap();
    let answer = apart(move || {
        // It has all descriptors of the process, those of the answer too.
        std::thread::spawn(move || io::copy(&mut &waits, &mut io::sink()));
        vec![7; 1 << 20]
    });
    drop(never);
    assert_eq!(answer.unwrap(), vec![7; 1 << 20]);
}

#[test]
fn an_end_without_an_answer_is_an_error() {
    // SAFETY: ends the process that is made for this.
    let error = apart(|| unsafe { libc::_exit(3) }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
