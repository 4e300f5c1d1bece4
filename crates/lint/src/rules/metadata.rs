//! What the metadata says of the language model: tokens that begin and end replies, template, types.

use kinglet_bundle::Value;
use kinglet_bundle::metadata::{LlmMetadata, SamplerKind, Token};

use super::Rule;
use crate::names::head;
use crate::report::Severity::Warning;
use crate::report::Sink;
use crate::subject::Subject;

/// Ends of a message and of a text in the vocabularies that have them: each can be the token that ends a reply.
const ENDS: [(&str, &str); 2] =
    [("<|im_end|>", "the model's token that ends a message"), ("<|endoftext|>", "the model's token that ends a text")];

/// Stop tokens that are not declared.
pub(super) const STOP_TOKENS: Rule = Rule {
    id: "stop-tokens",
    meaning: "the tokens that end a reply should be declared, those of the tokenizer and those of the configuration",
    hint: Some("declare both by id: a reply runs to the end of the context otherwise"),
    check: |subject, sink| {
        let Some(llm) = &subject.llm else { return };
        if llm.stop_tokens.is_empty() {
            return sink.fault(subject.llm_spot(), || "no stop token is declared: replies do not end".to_owned());
        }
        for (token, what) in ENDS {
            let Some(id) = subject.tokens().added(token) else { continue };
            if llm.stop_tokens.iter().any(|stop| is(stop, id, token)) {
                continue;
            }
            let closes = llm.jinja_prompt_template.as_ref().is_some_and(|template| template.contains(token));
            let message = || format!("`{token}` (id {id}), {what}, is not declared as a stop token");
            match closes {
                true => sink.fault(subject.llm_spot(), message),
                false => sink.warning(subject.llm_spot(), message),
            }
        }
    },
};

/// Whether a declared token is the one with this id and text, and nothing more.
fn is(token: &Token, id: i64, text: &str) -> bool {
    token.text.as_deref() == Some(text) || token.ids.len() == 1 && i64::from(token.ids[0]) == id
}

/// A kind of sampling that the official runtime does not have on CPUs.
pub(super) const GREEDY_SAMPLER: Rule = Rule {
    id: "greedy-sampler",
    meaning: "the official runtime as of 0.18.1 fails at the first token where the sampler is of the greedy kind",
    hint: Some("say top-p with one candidate, which comes to the same: kinglet set --temperature 0"),
    check: |subject, sink| {
        let Some(llm) = &subject.llm else { return };
        if llm.sampler.as_ref().is_some_and(|sampler| sampler.kind == SamplerKind::Greedy) {
            sink.fault(subject.llm_spot(), || "the sampler is of the greedy kind".to_owned());
        }
    },
};

/// A start token that the template does not write.
pub(super) const START_TOKEN: Rule = Rule {
    id: "start-token",
    meaning: "a start token should be declared only where the template begins with it: the runtime puts it before the prompt",
    hint: Some("remove start_token"),
    check: |subject, sink| {
        let Some(llm) = &subject.llm else { return };
        let Some((token, template)) = llm.start_token.as_ref().zip(llm.jinja_prompt_template.as_ref()) else { return };
        let Some(text) = spelled(token, subject) else { return };
        if !text.is_empty() && !template.contains("bos_token") && !template.contains(&text) {
            sink.warning(subject.llm_spot(), || {
                format!("`{}` is declared as start token, and the template writes no such token", head(&text))
            });
        }
    },
};

/// The text of a declared token, if the bundle tells it.
fn spelled(token: &Token, subject: &Subject<'_>) -> Option<String> {
    if let Some(text) = &token.text {
        return Some(text.clone());
    }
    let texts: Option<Vec<&str>> = token.ids.iter().take(8).map(|id| subject.tokens().text(i64::from(*id))).collect();
    texts.map(|texts| texts.concat())
}

/// A template that does not open the model's turn.
pub(super) const GENERATION_PROMPT: Rule = Rule {
    id: "generation-prompt",
    meaning: "the template should open the model's turn when a reply is asked for",
    hint: Some("write the opening of the model's turn under `add_generation_prompt`"),
    check: |subject, sink| {
        let Some(llm) = &subject.llm else { return };
        generation_prompt(llm, subject, sink);
    },
};

fn generation_prompt(llm: &LlmMetadata, subject: &Subject<'_>, sink: &mut Sink<'_>) {
    match (&llm.jinja_prompt_template, &llm.prompt_templates) {
        (Some(template), _) if !template.contains("add_generation_prompt") => {
            sink.warning(subject.llm_spot(), || "the chat template never reads `add_generation_prompt`".to_owned());
        }
        (None, Some(affixes)) if affixes.model.as_ref().is_none_or(|model| model.prefix.is_empty()) => {
            sink.warning(subject.llm_spot(), || "prompt_templates.model has no prefix".to_owned());
        }
        (None, None) if subject.language().is_some() => {
            sink.note(subject.llm_spot(), || "there is no chat template, and there are no affixes".to_owned());
        }
        _ => {}
    }
}

/// Half precision for recurrent states.
pub(super) const ACTIVATION_TYPE: Rule = Rule {
    id: "activation-type",
    meaning: "a model with recurrent states should ask for single precision: half precision overflows in its first layers",
    hint: Some("set prefer_activation_type of the TFLite section to fp32"),
    check: |subject, sink| {
        let Some(part) = subject.language().filter(|_| subject.is_hybrid()) else { return };
        let found = match part.section.item("prefer_activation_type") {
            Some(Value::Text(asked)) if asked == "fp32" => return,
            Some(other) => format!("is {}", head(&other.to_string())),
            None => "is not stated".to_owned(),
        };
        sink.on_gpu(Warning, part.spot(), || format!("prefer_activation_type {found}, expected fp32"));
    },
};
