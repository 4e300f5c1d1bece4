"""The official runtime: text goes in, text and scores come out; every question starts an engine of its own, because
the runtime does not clear the recurrent states between the sessions of one engine."""

import litert_lm

litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
GREEDY = litert_lm.SamplerConfig(top_k=1)


def engine(path):
    """A fresh engine on one thread that writes no cache."""
    return litert_lm.Engine(str(path), backend=litert_lm.Backend.CPU(thread_count=1), cache_dir=":nocache")


def tokenize(path, texts):
    """Ids of each text."""
    with engine(path) as fresh:
        return [fresh.tokenize(text) for text in texts]


def detokenize(path, lists):
    """Text of each list of ids."""
    with engine(path) as fresh:
        return [fresh.detokenize(ids) for ids in lists]


def complete(path, prompt, count):
    """The greedy continuation of a raw text, and the ids that the runtime made of the text."""
    with engine(path) as fresh:
        options = {"apply_prompt_template": False, "sampler_config": GREEDY, "max_output_tokens": count}
        with fresh.create_session(**options) as session:
            session.run_prefill([prompt])
            return session.run_decode().texts[0], fresh.tokenize(prompt)


def score(path, prompt, target):
    """Log-likelihood of each id of `target` after a raw text."""
    with engine(path) as fresh, fresh.create_session(apply_prompt_template=False) as session:
        session.run_prefill([prompt])
        return list(session.run_text_scoring([target], store_token_lengths=True).token_scores[0])


def converse(path, messages, count=64):
    """The greedy reply to each message of one conversation."""
    with engine(path) as fresh:
        with fresh.create_conversation(sampler_config=GREEDY, max_output_tokens=count) as conversation:
            return [str(conversation.send_message(message)) for message in messages]


def render(path, history, message):
    """What the runtime would feed to the model for `message` after `history`."""
    with engine(path) as fresh, fresh.create_conversation(messages=history or None) as conversation:
        return conversation.render_message_to_string(message)
