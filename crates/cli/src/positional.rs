//! `[MODEL] [PROMPT]`: what stands on the command line without a flag goes in; which of them is the model comes out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The rule, for `--help`.
pub(crate) const RULE: &str = "\
    One argument alone is the MODEL if it is an existing file or directory, or has no blank in it and either has a path \
    separator or ends like the file of a model (.litertlm, .gguf, .safetensors, ...); it is the text otherwise, - being \
    standard input. --model and --prompt leave no doubt.";

/// Endings of files of models, ours and those that are known to be something else.
const ENDINGS: [&str; 7] = [".litertlm", ".gguf", ".safetensors", ".tflite", ".task", ".bin", ".onnx"];

/// The model's path, if one was given, and the text, if one was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Positional {
    pub(crate) model: Option<PathBuf>,
    pub(crate) text: Option<String>,
}

/// Sorts out at most two arguments. `text_given`: whether an option already gave the text, so that none is looked for.
pub(crate) fn sort(arguments: &[OsString], model: Option<&Path>, text_given: bool) -> Result<Positional, Failure> {
    let path = |argument: &OsString| Some(PathBuf::from(argument));
    let surplus = |argument: &OsString| {
        Failure::usage(format!("`{}` is one argument too many", argument.to_string_lossy()))
            .hint("the model comes first, then its text; put quotes around a text of several words")
    };
    let (found_model, found_text) = match (arguments, model, text_given) {
        ([], ..) => (None, None),
        ([text], Some(_), false) => (None, Some(text)),
        ([first], None, true) => (path(first), None),
        ([first], None, false) if is_model(first) => (path(first), None),
        ([text], None, false) => (None, Some(text)),
        ([text, second], None, false) if is_model(second) && !is_model(text) => {
            let (model, text) = (second.to_string_lossy(), text.to_string_lossy());
            let hint = format!("the model comes first: kinglet run {model} '{text}'");
            return Err(Failure::usage(format!("`{model}` is a model, expected the text there")).hint(hint));
        }
        ([first, text], None, false) => (path(first), Some(text)),
        ([.., last], ..) => return Err(surplus(last)),
    };
    let text = found_text.map(|text| {
        text.clone()
            .into_string()
            .map_err(|text| Failure::usage(format!("`{}`: the text is not valid UTF-8", text.to_string_lossy())))
    });
    Ok(Positional { model: model.map(Path::to_owned).or(found_model), text: text.transpose()? })
}

fn is_model(argument: &OsString) -> bool {
    if Path::new(argument).exists() {
        return true;
    }
    let text = argument.to_string_lossy();
    let prose = text.contains(char::is_whitespace);
    let has_ending = || ENDINGS.iter().any(|ending| text.to_lowercase().ends_with(ending));
    !prose && (text.contains(std::path::is_separator) || has_ending())
}

/// Whether a text that is sent to the demo model looks more like the name of another one, such as `Qwen3.5-2B`.
pub(crate) fn is_doubtful(text: &str) -> bool {
    let inner = text.trim_end_matches(['.', '!', '?', '-', '_']);
    !text.contains(char::is_whitespace)
        && inner.contains(['-', '_', '.'])
        && inner.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && inner.chars().filter(char::is_ascii_alphabetic).count() >= 3
}

/// Adds, to an error about a path that is not there, how to say that it was meant as text.
pub(crate) fn doubt(error: anyhow::Error, arguments: &[OsString], model_flag: bool) -> anyhow::Error {
    match arguments {
        [only] if !model_flag && !Path::new(only).exists() => {
            let hint = "a path was expected there; if it is text for the model, give it as --prompt TEXT";
            let (class, _) = crate::failure::classify(&error);
            Failure::new(class, format!("{error:#}")).hint(hint).into()
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(arguments: &[&str], model: Option<&str>, text_given: bool) -> Option<(Option<String>, Option<String>)> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let found = sort(&arguments, model.map(Path::new), text_given).ok()?;
        Some((found.model.map(|path| path.display().to_string()), found.text))
    }

    #[test]
    fn one_argument_is_the_model_only_if_it_looks_like_one() {
        let model = |text: &str| Some((Some(text.to_owned()), None));
        let text = |text: &str| Some((None, Some(text.to_owned())));
        for name in ["Cargo.toml", "src", "no/such/dir", "./x", "/x", "a.litertlm", "model.GGUF", "x.safetensors"] {
            assert_eq!(sorted(&[name], None, false), model(name), "{name}");
        }
        for prose in ["Hello", "What is 1/2?", "yes or no / maybe", "", "a b.litertlm", "4+4"] {
            assert_eq!(sorted(&[prose], None, false), text(prose), "{prose}");
        }
    }

    #[test]
    fn a_name_of_a_model_is_doubted_and_prose_is_not() {
        for name in ["Qwen3.5-2B", "qwen3.5", "my_model", "model-0.8b"] {
            assert!(is_doubtful(name), "{name}");
        }
        for prose in ["Hello", "Hello!", "Hello.", "4+4", "-5", "3.14", "What is x-ray?", "don't", ""] {
            assert!(!is_doubtful(prose), "{prose}");
        }
    }

    #[test]
    fn options_settle_what_an_argument_is() {
        let (m, t) = (Some("m".to_owned()), Some("t".to_owned()));
        assert_eq!(sorted(&[], None, false), Some((None, None)));
        assert_eq!(sorted(&["m", "t"], None, false), Some((m.clone(), t.clone())));
        assert_eq!(sorted(&["src"], Some("m"), false), Some((m.clone(), Some("src".to_owned()))));
        assert_eq!(sorted(&["m"], None, true), Some((m.clone(), None)));
        assert_eq!(sorted(&[], Some("m"), true), Some((m, None)));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for (arguments, model, text_given) in [
            (&["a", "b", "c"][..], None, false),
            (&["a", "b"], Some("m"), false),
            (&["a", "b"], None, true),
            (&["a"], Some("m"), true),
            (&["what is it?", "a.litertlm"], None, false),
        ] {
            assert_eq!(sorted(arguments, model, text_given), None, "{arguments:?}");
        }
    }
}
