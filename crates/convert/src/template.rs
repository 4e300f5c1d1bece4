//! Chat templates: a choice and the checkpoint's own template go in, the source to store comes out, proved to be rendered
//! the same by the official runtime, or the reason why not.

use kinglet_text::proof::{self, Proof};

use crate::error::{Error, Result};

/// Which chat template a bundle gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TemplateChoice {
    /// [`proof::SIMPLE`].
    #[default]
    Simple,
    /// The checkpoint's own, edited as little as the official runtime needs.
    Stock,
    /// Another one, by its source.
    Source(String),
}

/// A template that may be stored.
#[derive(Clone, Debug)]
pub(crate) struct ProvenTemplate {
    /// Its source.
    pub(crate) source: String,
    /// What the user should know of it.
    pub(crate) warnings: Vec<String>,
}

impl TemplateChoice {
    /// What a lock calls it.
    pub fn name(&self) -> &'static str {
        match self {
            TemplateChoice::Simple => "simple",
            TemplateChoice::Stock => "stock",
            TemplateChoice::Source(_) => "file",
        }
    }

    /// Its source, where it has no name.
    pub fn source(&self) -> Option<&str> {
        match self {
            TemplateChoice::Source(source) => Some(source),
            _ => None,
        }
    }

    /// Proves it; `own` is the checkpoint's template.
    pub(crate) fn prove(&self, own: Option<&str>) -> Result<ProvenTemplate> {
        let proven =
            |source: &str, proof: &Proof| ProvenTemplate { source: source.to_owned(), warnings: proof.warnings() };
        match self {
            TemplateChoice::Simple => Ok(proven(proof::SIMPLE, &proof::prove(proof::SIMPLE)?)),
            TemplateChoice::Source(source) => Ok(proven(source, &proof::prove(source)?)),
            TemplateChoice::Stock => {
                let Some(own) = own else {
                    let problem = "--template stock: the checkpoint has no chat template";
                    return Err(Error::unsupported(problem, Some("take --template simple, or give a file")));
                };
                let stock = proof::stock(own)?;
                let mut template = proven(&stock.source, &stock.proof);
                if !stock.edits.is_empty() {
                    let edits: Vec<String> = stock.edits.iter().map(|edit| format!("{edit:?}")).collect();
                    let what = "the checkpoint's template is edited so that the official runtime renders the same text";
                    template.warnings.insert(0, format!("{what} ({})", edits.join(", ")));
                }
                Ok(template)
            }
        }
    }
}
