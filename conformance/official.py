"""Runs the official runtime, its tools and the TFLite interpreter on the bundles of a table, and compares.

    official.py TABLE.json --logits PROGRAM --render PROGRAM [--only WORD]

One line per check: PASS or FAIL, what was measured, and the time it took. It fails if a check does.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import chat_checks
import graph_checks
import runtime_checks
import table
import tool_checks
from kinglet import Kinglet
from verdicts import Verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="bundles.json, as `cargo xtask official` writes it")
    parser.add_argument("--logits", required=True, help="the example program of kinglet-engine")
    parser.add_argument("--render", required=True, help="the example program of kinglet-text")
    parser.add_argument("--only", default="", help="check only bundles with this in their name")
    options = parser.parse_args()
    kinglet, verdicts, start = Kinglet(options.logits, options.render), Verdicts(), time.monotonic()
    bundles = [bundle for bundle in table.read(options.table) if options.only in bundle.name]
    for bundle in bundles:
        for checks in (graph_checks, runtime_checks, chat_checks, tool_checks):
            checks.check(bundle, kinglet, verdicts)
    took = f"{time.monotonic() - start:.0f} s"
    print(f"official: {len(bundles)} bundles, {verdicts.passed} checks passed, {len(verdicts.failed)} failed in {took}")
    for name in verdicts.failed:
        print(f"official: failed: {name}")
    return 1 if verdicts.failed or not bundles else 0


if __name__ == "__main__":
    sys.exit(main())
