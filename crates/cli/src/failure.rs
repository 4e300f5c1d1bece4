//! Errors for people: the chain of an error goes in; its exit code comes out, and the cure where one is known.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;

use kinglet_model::ErrorKind as ModelErrorKind;

/// The table in `--help`; [`Class`] is the same in code.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    good
  1    another error
  2    the command line cannot be understood
  3    a file is not there or cannot be read
  4    a file is damaged or contradicts itself
  5    a file is of a format or family that this program does not run
  6    the context or the prompt does not fit
  7    a file cannot be written: there is one of that name, or the disk is full
  130  interrupted";

/// What kind of error it is; the numbers are the exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Other = 1,
    Usage = 2,
    NotFound = 3,
    Damaged = 4,
    Unsupported = 5,
    DoesNotFit = 6,
    NoRoom = 7,
}

/// An error that the program itself finds.
#[derive(Debug)]
pub(crate) struct Failure {
    class: Class,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Failure {
        Failure { class, message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Class::Usage, message)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Whether whoever read our output went away, which is their right.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|e| e.kind() == ErrorKind::BrokenPipe)
}

/// The class of an error and what to do about it: the first cause in the chain that knows.
pub(crate) fn classify(error: &anyhow::Error) -> (Class, Option<String>) {
    let mut class = None;
    let mut hint = None;
    for (its_class, its_hint) in error.chain().filter_map(judge) {
        class = class.or(Some(its_class));
        hint = hint.or(its_hint);
    }
    (class.unwrap_or(Class::Other), hint)
}

fn judge(cause: &(dyn std::error::Error + 'static)) -> Option<(Class, Option<String>)> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some((failure.class, failure.hint.clone()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_convert::Error>() {
        return Some((of_convert(error.kind()), error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_repack::Error>() {
        return Some((of_repack(error.kind()), error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_chat::Error>() {
        return Some((of_chat(error), error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_text::Error>() {
        return Some((of_text(error), error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_model::Error>() {
        return Some((of_model(error.kind()), error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<kinglet_bundle::Error>() {
        return Some((of_bundle(error.kind()), error.hint()));
    }
    let error = cause.downcast_ref::<std::io::Error>()?;
    Some((of_io(error.kind()), None))
}

fn of_model(kind: ModelErrorKind) -> Class {
    match kind {
        ModelErrorKind::NotFound => Class::NotFound,
        ModelErrorKind::Invalid => Class::Damaged,
        ModelErrorKind::Unsupported => Class::Unsupported,
        _ => Class::Other,
    }
}

fn of_convert(kind: kinglet_convert::ErrorKind) -> Class {
    use kinglet_convert::ErrorKind::*;
    match kind {
        Option => Class::Usage,
        Io => Class::NotFound,
        Exists | Full => Class::NoRoom,
        Invalid => Class::Damaged,
        Unsupported => Class::Unsupported,
        _ => Class::Other,
    }
}

fn of_repack(kind: kinglet_repack::ErrorKind) -> Class {
    use kinglet_repack::ErrorKind::*;
    match kind {
        Option => Class::Usage,
        Io => Class::NotFound,
        Exists | Full => Class::NoRoom,
        Invalid => Class::Damaged,
        Unsupported => Class::Unsupported,
        _ => Class::Other,
    }
}

fn of_bundle(kind: kinglet_bundle::ErrorKind) -> Class {
    use kinglet_bundle::ErrorKind::*;
    match kind {
        Io => Class::NotFound,
        Truncated | Invalid => Class::Damaged,
        NotABundle | Absent | Unsupported => Class::Unsupported,
        Exists | Full => Class::NoRoom,
        _ => Class::Other,
    }
}

fn of_chat(error: &kinglet_chat::Error) -> Class {
    match error {
        kinglet_chat::Error::PromptTooLong { .. } => Class::DoesNotFit,
        kinglet_chat::Error::EmptyPrompt => Class::Usage,
        kinglet_chat::Error::NoTemplate => Class::Unsupported,
        kinglet_chat::Error::Text(error) => of_text(error),
        kinglet_chat::Error::Engine(kinglet_engine::Error::ContextFull { .. }) => Class::DoesNotFit,
        _ => Class::Other,
    }
}

fn of_text(error: &kinglet_text::Error) -> Class {
    use kinglet_text::Error::*;
    match error {
        TokenizerTooLarge { .. } | Unsupported { .. } | TemplateTooLarge { .. } => Class::Unsupported,
        TokenizerJson(_) | TokenizerInconsistent { .. } | Misfit { .. } | TemplateSyntax { .. } => Class::Damaged,
        TemplateFailed { .. } | TemplateLimit { .. } | Message { .. } => Class::Damaged,
        _ => Class::Other,
    }
}

fn of_io(kind: ErrorKind) -> Class {
    match kind {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            Class::NotFound
        }
        ErrorKind::InvalidData => Class::Damaged,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn the_first_cause_that_knows_decides_the_code() {
        let io = |kind| std::io::Error::new(kind, "x");
        let cases = [
            (anyhow!("x"), Class::Other),
            (Failure::usage("x").into(), Class::Usage),
            (io(ErrorKind::NotFound).into(), Class::NotFound),
            (anyhow::Error::from(io(ErrorKind::NotFound)).context("reading x"), Class::NotFound),
            (kinglet_model::Error::not_found("x").into(), Class::NotFound),
            (kinglet_model::Error::tensor("t", "a", "b").into(), Class::Damaged),
            (kinglet_model::Error::unsupported("x", None).into(), Class::Unsupported),
            (kinglet_chat::Error::PromptTooLong { prompt: 9, context: 8 }.into(), Class::DoesNotFit),
            (kinglet_chat::Error::NoTemplate.into(), Class::Unsupported),
            (kinglet_text::Error::TokenizerJson("x".into()).into(), Class::Damaged),
        ];
        for (error, expected) in cases {
            assert_eq!(classify(&error).0, expected, "{error:?}");
        }
    }

    #[test]
    fn a_hint_survives_context_around_it() {
        let error = anyhow::Error::from(Failure::usage("x").hint("do y")).context("while z");
        assert_eq!(classify(&error).1.as_deref(), Some("do y"));
    }

    #[test]
    fn a_readers_class_and_hint_reach_the_user_through_the_model() {
        let open = |path: &str| anyhow::Error::from(kinglet_model::Source::open(path.as_ref()).expect_err(path));
        let cases = [
            ("../../fixtures/text", Class::NotFound, "the directory that holds config.json"),
            ("../../fixtures/cli", Class::Unsupported, "give one of its 1, such as ../../fixtures/cli/cut.litertlm"),
            ("../../fixtures/cli/cut.litertlm", Class::Damaged, "the file looks truncated"),
        ];
        for (path, class, hint) in cases {
            let error = open(path);
            let (its_class, its_hint) = classify(&error);
            assert_eq!(its_class, class, "{error:#}");
            assert!(its_hint.expect("known").contains(hint), "{error:#}");
            assert!(error.to_string().starts_with(&format!("{path}: ")), "{error:#}");
        }
        for path in ["../../fixtures/cli/llama", "Cargo.toml"] {
            assert_eq!(classify(&open(path)).0, Class::Unsupported, "{path}");
        }
    }

    #[test]
    fn a_broken_pipe_is_found_anywhere_in_the_chain() {
        let error = std::io::Error::new(ErrorKind::BrokenPipe, "x");
        assert!(is_broken_pipe(&anyhow::Error::from(error).context("writing")));
        assert!(!is_broken_pipe(&anyhow!("x")));
    }

    #[test]
    fn the_help_lists_every_class() {
        for class in [
            Class::Other,
            Class::Usage,
            Class::NotFound,
            Class::Damaged,
            Class::Unsupported,
            Class::DoesNotFit,
            Class::NoRoom,
        ] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", class as u8)), "{class:?}");
        }
    }
}
