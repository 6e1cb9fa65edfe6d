//! What exit codes mean. Each tool has its own; nothing that a tool prints is looked at here.

/// What an exit code means for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolVerdict {
    /// Whether the tool did what it was asked and found nothing wrong.
    pub ok: bool,
    /// For a person.
    pub meaning: &'static str,
}

impl ToolVerdict {
    /// Done, nothing wrong.
    #[must_use]
    pub const fn good(meaning: &'static str) -> Self {
        Self { ok: true, meaning }
    }

    /// Not done, or something is wrong.
    #[must_use]
    pub const fn bad(meaning: &'static str) -> Self {
        Self { ok: false, meaning }
    }

    /// A code that the tool does not document.
    #[must_use]
    pub const fn unknown() -> Self {
        Self::bad("an exit code that this tool does not document")
    }
}

/// Tools that make something: 0 or not.
#[must_use]
pub fn made(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("made"),
        1 => ToolVerdict::bad("refused or failed; its messages say why"),
        _ => ToolVerdict::unknown(),
    }
}

/// Tools that make a file system larger: 0 or not.
#[must_use]
pub fn grown(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("grown"),
        _ => ToolVerdict::bad("refused or failed; its messages say why"),
    }
}

/// Tools that make something and exit with whatever number went wrong: 0 or not.
#[must_use]
pub fn made_or_not(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("made"),
        _ => ToolVerdict::bad("refused or failed; its messages say why"),
    }
}
