"""Checks of conversations in the official runtime: what it renders, and what a trained model answers."""

import pathlib
import tempfile

import container
import runtime

CONVERSATIONS = [
    [{"role": "user", "content": "Hi there"}],
    [{"role": "user", "content": "  white\nspace  "}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}],
    [
        {"role": "user", "content": "My name is Anna."},
        {"role": "assistant", "content": "Hello, Anna!"},
        {"role": "user", "content": "What is my name? \u00e9\u4e2d"},
    ],
]
SINGLE = {
    "What is the capital of France?": "Paris",
    "What is 17 plus 13?": "30",
}
TURNS = ["My name is Anna.", "What is my name?"]


def check(bundle, kinglet, verdicts):
    """All checks of one bundle in conversation."""
    name = f"{bundle.name}: conversation"
    verdicts.check(f"{name}, prompts = Kinglet's", rendered, bundle, kinglet)
    verdicts.check(f"{name}, three turns", keeps_going, bundle)
    if bundle.answers:
        verdicts.check(f"{name}, right answers", answers, bundle)
        verdicts.check(f"{name}, the second turn remembers the first", remembers, bundle)


def rendered(bundle, kinglet):
    template = container.metadata(bundle.file).jinja_prompt_template
    inputs = [{"messages": messages, "add_generation_prompt": True} for messages in CONVERSATIONS]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "template.jinja"
        path.write_text(template)
        ours = kinglet.render(path, inputs)
    theirs = [runtime.render(bundle.file, messages[:-1], messages[-1]) for messages in CONVERSATIONS]
    different = [(a, b) for a, b in zip(theirs, ours) if a != b]
    return not different, f"{len(ours) - len(different)} of {len(ours)} equal{different[:1] or ''}"


def keeps_going(bundle):
    replies = runtime.converse(bundle.file, ["One", "Two! Three", "Four"], 8)
    return len(replies) == 3, f"replies of {[len(reply) for reply in replies]} characters"


def answers(bundle):
    found = {question: runtime.converse(bundle.file, [question])[0] for question in SINGLE}
    return all(want in found[question] for question, want in SINGLE.items()), f"{found}"


def remembers(bundle):
    first, second = runtime.converse(bundle.file, TURNS)
    return "Anna" in second, f"{TURNS[0]!r} {first!r} {TURNS[1]!r} {second!r}"
