"""Prompts: a tokenizer goes in, prompts of every length come out, with the ids in them that a pad guard may drop."""

import runtime

TEXT = (
    "In the beginning the universe was created! This has made a lot of people very angry! and been widely "
    "regarded as a bad move. What is 17 plus 13? 30! The capital of France is Paris. The quick brown fox jumps over "
    "the lazy dog, and my name is Anna! Hello! Tell me more about it, please! One, two, three, four, five, six; red, "
    "green and blue. "
)
# The ids by which pad guards of other exporters tell pads: `!` is id 0 in this family, and this is the pad token.
PAD_TEXTS = ("!", "<|endoftext|>")
PROBES = {
    "plain": "Hello world, how are you doing today my friend",
    "`!`": "Hello! world! how are you! doing today! my friend",
    "`<|endoftext|>`": "He<|endoftext|>llo world<|endoftext|> how are you doing today",
    "both at the ends": "!<|endoftext|>Hello world, how are you doing!<|endoftext|>!",
}
TARGET = " one two"


def pads(path):
    """The ids of `PAD_TEXTS` that this bundle's tokenizer has as one."""
    return [ids[0] for ids in runtime.tokenize(path, PAD_TEXTS) if len(ids) == 1]


def ids_of_length(path, length):
    """Ids of a text with `!` in it, and now and then a pad token."""
    text = TEXT
    while len(ids := runtime.tokenize(path, [text])[0]) < length:
        text += TEXT
    ids, pad = ids[:length], pads(path)[-1]
    for at in range(11, length, 17):
        ids[at] = pad
    return ids


def lengths(ladder, capacity, most=80):
    """Lengths of prompts: 1 to `most`, and around the sum of one id and each rung, twice each rung, and all rungs."""
    around = [*ladder, *(2 * rung for rung in ladder), sum(ladder)]
    wanted = {*range(1, most + 1), *(1 + edge + step for edge in around for step in (-2, -1, 0, 1))}
    return sorted(length for length in wanted if 1 <= length < capacity)


def texts_by_length(path, wanted):
    """For each wanted length for which there is one, a text that this bundle's tokenizer makes as many ids of."""
    text = TEXT * (1 + 4 * max(wanted) // len(TEXT))
    found = {}
    starts = [text[:end] for end in range(1, len(text) + 1)]
    for start, ids in zip(starts, runtime.tokenize(path, starts)):
        if len(ids) in wanted:
            found.setdefault(len(ids), start)
        if len(ids) > max(wanted):
            break
    return found
