"""A bundle's graph in the plain TFLite interpreter: ids and a chunk plan go in, exact logits come out.

It feeds the graph as the official runtime does: all ids but the last through prefill signatures, the last through
`decode`; rows that a prefill call does not need hold a pad id, position 0 and a mask that hides everything.
"""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import container

HIDDEN = np.float32(-0.7 * np.finfo(np.float32).max)


class Graph:
    """The graph of one bundle."""

    def __init__(self, path):
        self._model = Interpreter(model_content=container.only(path, "TFLiteModel"), num_threads=1)
        names = self._model.get_signature_list()
        self.ladder = sorted((int(name.split("_")[1]) for name in names if name.startswith("prefill_")), reverse=True)
        self._prefill = {rung: self._model.get_signature_runner(f"prefill_{rung}") for rung in self.ladder}
        self._decode = self._model.get_signature_runner("decode")
        self._inputs = self._decode.get_input_details()
        self.capacity = int(self._inputs["mask"]["shape"][-1])

    def empty(self):
        """The state before the first id: zeros, and position 0."""
        tensors = {n: np.zeros(d["shape"], d["dtype"]) for n, d in self._inputs.items() if n.startswith("kv_cache")}
        return State(tensors, 0)

    def decode(self, state, token):
        """One id through `decode`: its logits, and the state behind it."""
        out = self._decode(**self._call(state, [token], 1, 0))
        return out["logits"].reshape(-1), state.behind(out, 1)

    def prefill(self, state, ids, pad=0):
        """Ids through the prefill signatures, in the chunks that the official runtime makes of them."""
        while ids:
            rung = self.rung(len(ids))
            out = self._prefill[rung](**self._call(state, ids[:rung], rung, pad))
            state, ids = state.behind(out, min(rung, len(ids))), ids[rung:]
        return state

    def rung(self, left):
        """The chunk for what is left: the largest that is filled, or else the smallest that holds it all."""
        if left >= self.ladder[0]:
            return self.ladder[0]
        return min(rung for rung in self.ladder if rung >= left)

    def last_logits(self, ids, pad=0):
        """Logits of the last id of a prompt that goes through prefill."""
        logits, _ = self.decode(self.prefill(self.empty(), ids[:-1], pad), ids[-1])
        return logits

    def every_logits(self, ids):
        """Logits of each id, all of them through `decode`: no prefill, no pads."""
        state, rows = self.empty(), []
        for token in ids:
            logits, state = self.decode(state, token)
            rows.append(logits)
        return np.array(rows)

    def greedy(self, ids, count):
        """Greedy ids after a prompt that goes through prefill, and the least lead that one of them had."""
        return self.greedy_from(self.prefill(self.empty(), ids[:-1]), ids[-1], count)

    def greedy_from(self, state, token, count):
        """The same after a state and one more id."""
        chosen, lead = [], np.inf
        for _ in range(count):
            logits, state = self.decode(state, token)
            token = int(logits.argmax())
            lead = min(lead, margin(logits))
            chosen.append(token)
        return chosen, lead

    def _call(self, state, ids, rows, pad):
        tokens = np.full((1, rows), pad, np.int32)
        tokens[0, : len(ids)] = ids
        positions = np.zeros(rows, np.int32)
        positions[: len(ids)] = np.arange(state.position, state.position + len(ids))
        mask = np.full((1, 1, rows, self.capacity), HIDDEN, np.float32)
        for row in range(len(ids)):
            mask[0, 0, row, : state.position + row + 1] = 0
        return {"tokens": tokens, "input_pos": positions, "mask": mask, **state.tensors}


class State:
    """What a graph carries from call to call."""

    def __init__(self, tensors, position):
        self.tensors, self.position = tensors, position

    def behind(self, outputs, count):
        """The state that a call over `count` ids leaves."""
        return State({name: outputs[name] for name in self.tensors}, self.position + count)


def margin(logits):
    """How far the largest logit leads the next."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
