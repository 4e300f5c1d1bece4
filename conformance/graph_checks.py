"""Checks of the graph in the plain TFLite interpreter, where logits are exact."""

import json

import numpy as np

import prompts
from graph import Graph, log_softmax, margin

# Most that a float graph's logits may differ from the reference, and a prompt's by chunks from the same by `decode`.
FLOAT_LOGITS = 1e-3
# Most nats, mean over positions, from Kinglet with the same int8 weights and exact activations to the int8 graph, whose
# activations are int8 too: of a trained model, and of random weights.
INT8_DIVERGENCE = {True: 0.01, False: 0.2}
# In an int8 graph a difference in the last bit of an activation can move its rounding.
INT8_LOGITS = 0.5


def check(bundle, kinglet, verdicts):
    """All checks of one bundle's graph."""
    graph = Graph(bundle.file)
    lengths = prompts.lengths(graph.ladder, graph.capacity)
    ids = prompts.ids_of_length(bundle.file, min(max(lengths), graph.capacity - 1))
    steps = graph.every_logits(ids)
    name = f"{bundle.name}: graph"
    verdicts.check(f"{name}, decode only = Kinglet", against_kinglet, bundle, kinglet, ids, steps)
    if bundle.is_float and bundle.reference:
        verdicts.check(f"{name}, prefill and greedy = transformers", against_transformers, bundle, graph)
    for pad in prompts.pads(bundle.file):
        title = f"{name}, {len(lengths)} lengths by ladder {graph.ladder}, pads of id {pad} = decode only"
        verdicts.check(title, by_length, bundle, graph, ids, steps, lengths, pad)
    verdicts.check(f"{name}, prefill goes on after decode = decode only", turns, bundle, graph, ids, steps)


def against_kinglet(bundle, kinglet, ids, steps):
    (expected,) = kinglet.logits(bundle.checkpoint, [ids], bundle.weights)
    worst = float(np.abs(expected - steps).max())
    p, q = log_softmax(expected), log_softmax(steps)
    divergence = (np.exp(p) * (p - q)).sum(axis=-1)
    same = float((expected.argmax(-1) == steps.argmax(-1)).mean())
    measured = f"{len(ids)} positions, KL mean {divergence.mean():.2e} max {divergence.max():.2e}, "
    measured += f"same first {same:.1%}, max logit difference {worst:.2e}"
    if bundle.is_float:
        return worst <= FLOAT_LOGITS, f"{measured} (limit {FLOAT_LOGITS:g})"
    limit = INT8_DIVERGENCE[bundle.answers]
    return divergence.mean() <= limit, f"{measured} (limit of the mean {limit:g})"


def against_transformers(bundle, graph):
    worst, right, wanted = 0.0, 0, 0
    for case in json.loads(bundle.reference.read_text())["cases"].values():
        expected = np.array(case["last_logits"])
        worst = max(worst, float(np.abs(graph.last_logits(case["ids"]) - expected).max()))
        ids, _ = graph.greedy(case["ids"], len(case["greedy"]))
        right += sum(a == b for a, b in zip(ids, case["greedy"]))
        wanted += len(case["greedy"])
    measured = f"max logit difference {worst:.2e} (limit {FLOAT_LOGITS:g}), {right} of {wanted} greedy ids"
    return worst <= FLOAT_LOGITS and right == wanted, measured


def by_length(bundle, graph, ids, steps, lengths, pad):
    return compare(bundle, [(n, graph.last_logits(ids[:n], pad), steps[n - 1]) for n in lengths])


def turns(bundle, graph, ids, steps):
    """Prefill, decode, and prefill again: the second begins at a position above 0, and pads hold position 0."""
    pairs = []
    for first in (1, 2, 5, 8, 9, 20, 33, 41):
        for second in (1, 2, 6, 9, 17, 31):
            state = graph.prefill(graph.empty(), ids[:first])
            for token in ids[first : first + 3]:
                _, state = graph.decode(state, token)
            end = first + 3 + second
            state = graph.prefill(state, ids[first + 3 : end])
            logits, _ = graph.decode(state, ids[end])
            pairs.append((f"{first}+3+{second}+1", logits, steps[end]))
    return compare(bundle, pairs)


def compare(bundle, triples):
    """Whether logits are those of `decode` alone, and the first ids the same where those lead clearly."""
    limit = FLOAT_LOGITS if bundle.is_float else INT8_LOGITS
    worst, where, moved = 0.0, None, []
    for name, logits, expected in triples:
        difference = float(np.abs(logits - expected).max())
        if not difference <= worst:
            worst, where = difference, name
        if logits.argmax() != expected.argmax() and margin(expected) > 2 * limit:
            moved.append(name)
    measured = f"{len(triples)} prompts, max logit difference {worst:.2e} at {where} (limit {limit:g})"
    if moved:
        measured += f", another first id at {moved}"
    return worst <= limit and not moved, measured
