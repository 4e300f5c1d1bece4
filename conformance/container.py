"""A bundle's sections, read and written with the official builder: a file goes in, bytes by section come out."""

import dataclasses
import hashlib
import pathlib
import struct

import litert_lm_builder as builder
from litert_lm_builder import litertlm_header_schema_py_generated as schema
from litert_lm_builder.runtime.proto import llm_metadata_pb2

KINDS = {value: name for name, value in vars(schema.AnySectionDataType).items() if isinstance(value, int)}


@dataclasses.dataclass
class Section:
    """One section: its kind by the schema's name, and its bytes."""

    kind: str
    data: bytes

    def digest(self):
        return hashlib.sha256(self.data).hexdigest()


def sections(path):
    """All sections of a bundle, in their order in the file."""
    data = pathlib.Path(path).read_bytes()
    header = data[32 : struct.unpack_from("<Q", data, 24)[0]]
    table = schema.LiteRTLMMetaData.GetRootAs(header, 0).SectionMetadata()
    objects = [table.Objects(i) for i in range(table.ObjectsLength())]
    return [Section(KINDS[o.DataType()], data[o.BeginOffset() : o.EndOffset()]) for o in objects]


def only(path, kind):
    """The bytes of a bundle's one section of a kind."""
    found = [section.data for section in sections(path) if section.kind == kind]
    if len(found) != 1:
        raise ValueError(f"{path}: {len(found)} sections of kind {kind}, expected 1")
    return found[0]


def metadata(path):
    """The model's metadata as a message."""
    return llm_metadata_pb2.LlmMetadata.FromString(only(path, "LlmMetadataProto"))


def stop_ids(path):
    """The single ids at which the runtime ends a reply."""
    lists = [list(token.token_ids.ids) for token in metadata(path).stop_tokens]
    return {ids[0] for ids in lists if len(ids) == 1}


def with_extra_section(path, extra, folder, out):
    """Writes the bundle again with one more section of generic bytes, all others as they are."""
    adders = {
        "LlmMetadataProto": ("llm.pb", builder.LitertLmFileBuilder.add_llm_metadata),
        "ExecutorMetadataProto": ("executor.pb", builder.LitertLmFileBuilder.add_executor_metadata),
        "HF_Tokenizer_Zlib": ("tokenizer.zlib", builder.LitertLmFileBuilder.add_hf_tokenizer),
        "GenericBinaryData": ("generic.bin", builder.LitertLmFileBuilder.add_generic_binary_data),
        "TFLiteModel": (
            "model.tflite",
            lambda b, name: b.add_tflite_model(name, builder.TfLiteModelType.PREFILL_DECODE),
        ),
    }
    file = builder.LitertLmFileBuilder()
    file.add_system_metadata(builder.Metadata(key="Authors", value="kinglet", dtype=builder.DType.STRING))
    for number, section in enumerate([*sections(path), Section("GenericBinaryData", extra)]):
        name, add = adders[section.kind]
        part = pathlib.Path(folder) / f"{number}-{name}"
        part.write_bytes(section.data)
        add(file, str(part))
    with open(out, "wb") as stream:
        file.build(stream)
