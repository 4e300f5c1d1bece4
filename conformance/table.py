"""What is to be checked: the file that `cargo xtask official` writes goes in, one record per bundle comes out."""

import dataclasses
import json
import pathlib


@dataclasses.dataclass
class Bundle:
    """One bundle, what it was made from, and what is known about that."""

    name: str
    file: pathlib.Path
    checkpoint: pathlib.Path
    recipe: str
    # What transformers computed from the checkpoint in float32.
    reference: pathlib.Path | None = None
    # What the official runtime said of the official tools' bundle of the same weights.
    official: pathlib.Path | None = None
    # Whether it was trained to answer.
    answers: bool = False

    @property
    def is_float(self):
        return self.recipe == "float"

    @property
    def weights(self):
        """How Kinglet is to hold the checkpoint's weights so that they are the bundle's."""
        return "stored" if self.is_float else "int8"


def read(path):
    """The table's bundles; paths in it are relative to its folder."""
    path = pathlib.Path(path)
    at = lambda value: path.parent / value if value else None
    records = json.loads(path.read_text())["bundles"]
    for record in records:
        for key in ("file", "checkpoint", "reference", "official"):
            record[key] = at(record.get(key))
    return [Bundle(**record) for record in records]
