"""Checks of a bundle in the official runtime itself: text, scores, every length of prompt, ids that look like pads."""

import json
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import container
import prompts
import runtime
from graph import Graph, log_softmax

# Most nats by which the runtime's own scores of a float bundle are known to miss the exact ones.
SCORE = 0.16
# The same of an int8 bundle, whose activations the runtime rounds to int8.
INT8_SCORE = 1.0
# Most nats between two bundles of the same weights in the runtime.
SAME_WEIGHTS = {True: 0.01, False: 0.3}
# Ids that are compared after each prompt, and how far each must lead for that.
FOLLOWING, LEAD = 3, 0.02


def check(bundle, kinglet, verdicts):
    """All checks of one bundle in the runtime."""
    name = f"{bundle.name}: runtime"
    if bundle.official:
        verdicts.check(f"{name}, text and scores = the official bundle's", against_official, bundle)
    if bundle.is_float and bundle.reference:
        verdicts.check(f"{name}, greedy text = transformers", against_transformers, bundle)
    verdicts.check(f"{name}, scores around ids that look like pads = Kinglet", probes, bundle, kinglet)
    verdicts.check(f"{name}, every length of prompt = decode only", every_length, bundle)


def against_official(bundle):
    """The float bundle's text must be equal. In int8, two graphs may round differently: scores must be close."""
    cases = json.loads(bundle.official.read_text())["cases"].values()
    worst, same = 0.0, 0
    for case in cases:
        text, ids = runtime.complete(bundle.file, case["prompt"], 24)
        assert ids == case["ids"], f"another tokenization of {case['prompt']!r}"
        same += text == case["greedy_text"]
        scores = runtime.score(bundle.file, case["prompt"], case["target"])
        worst = max(worst, difference(scores, case["target_token_scores"][0]))
    limit = SAME_WEIGHTS[bundle.is_float]
    measured = f"{same} of {len(cases)} greedy texts equal, scores within {worst:.1e} nats (limit {limit:g})"
    return worst <= limit and (same == len(cases) or not bundle.is_float), measured


def against_transformers(bundle):
    cases = json.loads(bundle.reference.read_text())["cases"].items()
    checked = []
    for name, case in cases:
        text, ids = runtime.complete(bundle.file, case["text"], len(case["greedy"]))
        # Some of the reference's prompts are random ids, which no text stands for.
        if ids == case["ids"]:
            checked.append((name, text == case["greedy_text"]))
    return bool(checked) and all(same for _, same in checked), f"equal: {dict(checked)}"


def probes(bundle, kinglet):
    texts = list(prompts.PROBES.values())
    *heads, target = runtime.tokenize(bundle.file, [*texts, prompts.TARGET])
    rows = kinglet.logits(bundle.checkpoint, [head + target for head in heads], bundle.weights)
    misses = []
    for name, text, head, logits in zip(prompts.PROBES, texts, heads, rows):
        exact = log_softmax(logits[len(head) - 1 : -1])[np.arange(len(target)), target]
        misses.append((name, difference(runtime.score(bundle.file, text, prompts.TARGET), exact)))
    limit = SCORE if bundle.is_float else INT8_SCORE
    shown = ", ".join(f"{name} {miss:.3f}" for name, miss in misses)
    return all(miss <= limit for _, miss in misses), f"nats: {shown} (limit {limit:g})"


def every_length(bundle):
    """Ids by `decode` alone in the interpreter, against what the runtime says after a prompt by its ladder."""
    graph = Graph(bundle.file)
    lengths = prompts.lengths(graph.ladder, graph.capacity - FOLLOWING)
    texts = prompts.texts_by_length(bundle.file, set(lengths))
    ids = runtime.tokenize(bundle.file, texts.values())
    followed = [follow(graph, each) for each in ids]
    stops = container.stop_ids(bundle.file)
    expected = runtime.detokenize(bundle.file, [until(chosen, stops) for chosen, _ in followed])
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(runtime.complete, bundle.file, text, FOLLOWING) for text in texts.values()]
        found = [job.result()[0] for job in jobs]
    wrong, close = [], 0
    for length, said, want, (_, lead) in zip(texts, found, expected, followed):
        if said != want and lead < LEAD:
            close += 1
        elif said != want:
            wrong.append((length, said, want))
    measured = f"{len(texts)} of {len(lengths)} lengths have a text, {len(wrong)} wrong {wrong[:4]}, {close} too close"
    return not wrong and len(texts) >= 0.9 * len(lengths) and close <= 0.1 * len(texts), measured


def follow(graph, ids):
    """Greedy ids by `decode` alone, and the least lead that one of them had."""
    state = graph.empty()
    for token in ids[:-1]:
        _, state = graph.decode(state, token)
    return graph.greedy_from(state, ids[-1], FOLLOWING)


def until(ids, stops):
    """The ids before the first at which the runtime stops."""
    return ids[: next((at for at, token in enumerate(ids) if token in stops), len(ids))]


def difference(scores, expected):
    assert len(scores) == len(expected), f"{len(scores)} scores, expected {len(expected)}"
    return float(np.abs(np.array(scores) - np.array(expected)).max())
