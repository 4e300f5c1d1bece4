"""Checks of a bundle with the official command-line tools, and of sections that the runtime does not know."""

import pathlib
import subprocess
import sys
import tempfile

import container
import runtime

LITERT_LM = pathlib.Path(sys.executable).with_name("litert-lm")
EXTRA = b"a section that only its writer understands"


def check(bundle, _kinglet, verdicts):
    """All checks of one bundle with the tools."""
    name = f"{bundle.name}: tools"
    verdicts.check(f"{name}, unpack and pack", round_trip, bundle)
    verdicts.check(f"{name}, benchmark", benchmark, bundle)
    verdicts.check(f"{name}, a section more changes nothing", extra_section, bundle)


def round_trip(bundle):
    with tempfile.TemporaryDirectory() as folder:
        apart, again = pathlib.Path(folder) / "apart", pathlib.Path(folder) / "again.litertlm"
        tool("unpack", bundle.file, "--output-dir", apart)
        tool("pack", apart, "--output", again)
        before = [(s.kind, s.digest()) for s in container.sections(bundle.file)]
        after = [(s.kind, s.digest()) for s in container.sections(again)]
        same_metadata = container.metadata(bundle.file) == container.metadata(again)
    different = [kind for (kind, digest), other in zip(before, after) if (kind, digest) != other]
    measured = f"{len(before)} sections, {len(after)} again, not the same bytes: {different or 'none'}"
    return len(before) == len(after) and not different and same_metadata, measured


def benchmark(bundle):
    out = tool("benchmark", bundle.file, "--prefill-tokens", 64, "--decode-tokens", 16, "--backend", "cpu", "--cache", "no")
    speeds = [line.strip() for line in out.splitlines() if "token" in line.lower() and any(c.isdigit() for c in line)]
    return len(speeds) >= 2, "; ".join(speeds) or out[-300:]


def extra_section(bundle):
    prompt = "The quick brown fox"
    with tempfile.TemporaryDirectory() as folder:
        more = pathlib.Path(folder) / "more.litertlm"
        container.with_extra_section(bundle.file, EXTRA, folder, more)
        assert container.sections(more)[-1].data == EXTRA
        here, there = (runtime.complete(path, prompt, 16) for path in (bundle.file, more))
        a, b = (runtime.score(path, prompt, " one two") for path in (bundle.file, more))
    return here == there and a == b, f"text {'equal' if here == there else (here, there)}, scores {a} and {b}"


def tool(*words):
    """What `litert-lm` prints; fails unless it succeeds."""
    command = [str(LITERT_LM), *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"litert-lm {words[0]} ended with {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout
