//! Bundles of the repository, and damaged ones, taken apart and put together: the same bytes, or an error by name.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kinglet_blob::Blob;
use kinglet_bundle::write::{Output, Part, Writer, watch_nothing};
use kinglet_bundle::{Bundle, Item, LlmMetadata, SectionKind, Value};
use kinglet_repack::diff::{State, diff};
use kinglet_repack::set::{Changes, StopToken, set};
use kinglet_repack::{ErrorKind, pack, unpack};

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/bundles");
    let folders = ["tiny", "tiny4b"].map(|folder| fs::read_dir(root.join(folder)).expect("there"));
    let files = folders.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut bundles: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "litertlm")).collect();
    bundles.sort();
    assert!(bundles.len() >= 7, "{bundles:?}");
    bundles
}

/// A folder of a test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kinglet-repack-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("writable");
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn packed(folder: &Path, to: &Path) -> kinglet_repack::Result<pack::Packed> {
    let mut output = Output::create(to, true)?;
    let packed = pack::pack(folder, &mut output, &mut watch_nothing)?;
    output.commit()?;
    Ok(packed)
}

fn changed(bundle: &Bundle, changes: &Changes, to: &Path) -> kinglet_repack::Result<Bundle> {
    let mut output = Output::create(to, true)?;
    set(bundle, changes, &mut output, &mut watch_nothing)?;
    output.commit()?;
    Ok(Bundle::open(to)?)
}

/// A bundle of a family that nobody knows: unknown kinds, items of every type, an unknown metadata field, and bytes
/// between sections.
fn strange(path: &Path) {
    let values = [
        Value::U8(1),
        Value::I8(-1),
        Value::U16(2),
        Value::I16(-2),
        Value::U32(3),
        Value::I32(-3),
        Value::F32(0.1),
        Value::Bool(true),
        Value::Text("é".into()),
        Value::U64(u64::MAX),
        Value::I64(i64::MIN),
        Value::F64(0.1),
        Value::None,
    ];
    let items = values.into_iter().enumerate().map(|(n, value)| Item { key: format!("k{n}"), value });
    let mut writer = Writer::new(items.collect());
    let mut metadata = LlmMetadata { max_num_tokens: 7, ..LlmMetadata::default() }.encode();
    // Field 100, a text, and field 5 once more: what is stored last counts.
    metadata.extend([0xa2, 0x06, 2, b'h', b'i', 5 << 3, 9]);
    writer.add(Part::bytes(SectionKind::LlmMetadata, Vec::new(), metadata));
    writer.add(Part::bytes(SectionKind::Unknown(200), vec![Item::text("a", "b")], vec![1; 20_000]));
    writer.add(Part::bytes(SectionKind::Unknown(200), Vec::new(), vec![]));
    writer.add(Part::bytes(SectionKind::GenericBinaryData, Vec::new(), b"last".to_vec()));
    let mut bytes = Vec::new();
    writer.write("strange", &mut bytes, &mut watch_nothing).expect("written");
    bytes[16_000] = 0x55; // Between header and first section.
    bytes.extend(b"behind the last section");
    fs::write(path, bytes).expect("writable");
}

#[test]
fn what_is_unpacked_and_packed_is_the_same_bytes() {
    let folder = Folder::new("same");
    strange(&folder.at("strange"));
    for path in fixtures().into_iter().chain([folder.at("strange")]) {
        let apart = folder.at("apart");
        unpack::unpack(&Bundle::open(&path).expect("sound"), &apart, true).expect("unpacked");
        let again = packed(&apart, &folder.at("again")).expect("packed");
        assert!(again.changed.is_empty(), "{:?}", again.changed);
        assert!(fs::read(&path).expect("there") == fs::read(folder.at("again")).expect("there"), "{}", path.display());
    }
}

#[test]
fn a_folder_that_is_there_is_kept_unless_it_was_unpacked() {
    let folder = Folder::new("exists");
    let bundle = Bundle::open(&fixtures()[0]).expect("sound");
    fs::create_dir(folder.at("mine")).expect("writable");
    fs::write(folder.at("mine/letter"), "dear").expect("writable");
    for replace in [false, true] {
        let error = unpack::unpack(&bundle, &folder.at("mine"), replace).expect_err("there already");
        assert_eq!(error.kind(), ErrorKind::Exists);
    }
    assert_eq!(fs::read(folder.at("mine/letter")).expect("kept"), b"dear");
    unpack::unpack(&bundle, &folder.at("apart"), false).expect("unpacked");
    assert_eq!(unpack::unpack(&bundle, &folder.at("apart"), false).expect_err("there").kind(), ErrorKind::Exists);
    unpack::unpack(&bundle, &folder.at("apart"), true).expect("replaced");
    assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 2, "nothing else is left");
}

#[test]
fn a_changed_file_is_taken() {
    let folder = Folder::new("changed");
    let path = fixtures()[0].clone();
    let bundle = Bundle::open(&path).expect("sound");
    let apart = folder.at("apart");
    unpack::unpack(&bundle, &apart, false).expect("unpacked");
    fs::write(apart.join("00-chat_template.jinja"), "{{ 'new' }}").expect("writable");
    fs::write(apart.join("02-tokenizer.json"), "{\"new\": true}").expect("writable");
    let result = packed(&apart, &folder.at("again")).expect("packed");
    assert_eq!(result.changed, ["00-chat_template.jinja", "02-tokenizer.json"]);
    let again = Bundle::open(&folder.at("again")).expect("sound");
    assert_eq!(again.tokenizer_json().expect("there"), b"{\"new\": true}");
    let expected =
        LlmMetadata { jinja_prompt_template: Some("{{ 'new' }}".into()), ..bundle.llm_metadata().expect("there") };
    assert_eq!(again.llm_metadata().expect("there"), expected);
    let model = |bundle: &Bundle| bundle.section(SectionKind::TfLiteModel, None).expect("there").data.to_vec();
    assert!(model(&again) == model(&bundle));
    fs::write(apart.join("00-LlmMetadataProto.pb"), "").expect("writable");
    let error = packed(&apart, &folder.at("again")).expect_err("both changed");
    assert!(error.to_string().contains("not of both"), "{error}");
}

#[test]
fn items_can_be_changed_in_the_manifest() {
    let folder = Folder::new("items");
    strange(&folder.at("strange"));
    let bundle = Bundle::open(&folder.at("strange")).expect("sound");
    unpack::unpack(&bundle, &folder.at("apart"), false).expect("unpacked");
    let manifest = folder.at("apart/bundle.json");
    let text = fs::read_to_string(&manifest).expect("there");
    fs::write(&manifest, text.replace("\"é\"", "\"other\"").replace("18446744073709551615", "5")).expect("writable");
    packed(&folder.at("apart"), &folder.at("again")).expect("packed");
    let again = Bundle::open(&folder.at("again")).expect("sound");
    assert_eq!(again.system_metadata()[8].value, Value::Text("other".into()));
    assert_eq!(again.system_metadata()[9].value, Value::U64(5));
    assert_eq!(again.system_metadata()[6].value, Value::F32(0.1));
    assert_eq!(again.sections()[1].items, bundle.sections()[1].items);
}

type Damage = (&'static str, fn(&Path), &'static [&'static str]);

fn edit(folder: &Path, from: &str, to: &str) {
    let path = folder.join("bundle.json");
    let text = fs::read_to_string(&path).expect("there");
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replacen(from, to, 1)).expect("writable");
}

const DAMAGES: &[Damage] = &[
    ("no manifest", |f| fs::remove_file(f.join("bundle.json")).expect("there"), &["bundle.json"]),
    ("no JSON", |f| fs::write(f.join("bundle.json"), "[").expect("writable"), &["bundle.json", "manifest"]),
    ("version", |f| edit(f, "\"unpacked\": 1", "\"unpacked\": 2"), &["bundle.json", "version 2"]),
    ("no header", |f| fs::remove_file(f.join("header.bin")).expect("there"), &["header.bin"]),
    ("header", |f| fs::write(f.join("header.bin"), "LITERTLM").expect("writable"), &["header.bin"]),
    ("no section", |f| fs::remove_file(f.join("00-LlmMetadataProto.pb")).expect("there"), &["00-LlmMetadataProto.pb"]),
    ("out of the folder", |f| edit(f, "00-LlmMetadataProto.pb", "../../etc/passwd"), &["bundle.json", "passwd"]),
    ("absolute", |f| edit(f, "00-LlmMetadataProto.pb", "/etc/passwd"), &["bundle.json", "passwd"]),
    ("hidden", |f| edit(f, "00-LlmMetadataProto.pb", ".x"), &["bundle.json", "`.x`"]),
    ("kind", |f| edit(f, "\"kind\": \"LlmMetadataProto\"", "\"kind\": \"Bogus\""), &["bundle.json", "Bogus"]),
    (
        "a folder",
        |f| {
            fs::remove_file(f.join("00-LlmMetadataProto.pb")).expect("there");
            fs::create_dir(f.join("00-LlmMetadataProto.pb")).expect("writable");
        },
        &["00-LlmMetadataProto.pb", "regular file"],
    ),
    (
        "twice",
        |f| edit(f, "\"kind\": \"ExecutorMetadataProto\"", "\"kind\": \"LlmMetadataProto\""),
        &["LlmMetadataProto"],
    ),
    ("value", |f| edit(f, "\"type\": \"string\"", "\"type\": \"u8\""), &["item `Authors`", "type u8"]),
];

#[test]
fn a_damaged_folder_is_refused_by_name_and_leaves_nothing() {
    for (name, damage, words) in DAMAGES {
        let folder = Folder::new(&format!("damage-{}", name.replace(' ', "-")));
        unpack::unpack(&Bundle::open(&fixtures()[0]).expect("sound"), &folder.at("apart"), false).expect("unpacked");
        damage(&folder.at("apart"));
        let error = packed(&folder.at("apart"), &folder.at("again")).expect_err(name);
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
        assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 1, "{name}: only the folder is there");
    }
}

#[test]
fn what_is_set_is_said_and_everything_else_stays() {
    let folder = Folder::new("set");
    for path in fixtures() {
        let bundle = Bundle::open(&path).expect("sound");
        let changes = Changes {
            template: Some("{{ 1 }}".into()),
            stop_tokens: Some(vec![StopToken::Id(5), StopToken::Text("<end>".into())]),
            activation_type: Some("fp32".into()),
            max_num_tokens: Some(99),
            temperature: Some(0.5),
            top_k: Some(3),
            top_p: Some(0.9),
            items: vec![("model_name".into(), "Tiny".into())],
        };
        let again = changed(&bundle, &changes, &folder.at("again")).expect("set");
        let (before, after) = (bundle.llm_metadata().expect("there"), again.llm_metadata().expect("there"));
        assert_eq!(after.jinja_prompt_template.as_deref(), Some("{{ 1 }}"));
        assert_eq!((after.max_num_tokens, after.stop_tokens.len()), (99, 2));
        let sampler = after.sampler.expect("set");
        assert_eq!((sampler.k, sampler.p, sampler.temperature), (3, 0.9, 0.5));
        assert_eq!((after.channels, after.pad_token), (before.channels, before.pad_token));
        for (a, b) in bundle.sections().iter().zip(again.sections()) {
            assert!(a.kind == SectionKind::LlmMetadata || a.data[..] == b.data[..], "{}", a.label());
        }
        let model = again.section(SectionKind::TfLiteModel, None).expect("there");
        assert_eq!(model.item("prefer_activation_type"), Some(&Value::Text("fp32".into())));
        assert_eq!(model.model_type(), Some("prefill_decode"));
        let back = changed(&again, &Changes { max_num_tokens: Some(5), ..Changes::default() }, &folder.at("back"));
        assert_eq!(back.expect("set").llm_metadata().expect("there").max_num_tokens, 5);
    }
}

#[test]
fn fields_that_nobody_knows_stay_where_a_known_one_changes() {
    let folder = Folder::new("unknown");
    strange(&folder.at("strange"));
    let bundle = Bundle::open(&folder.at("strange")).expect("sound");
    let changes = Changes { template: Some("t".into()), ..Changes::default() };
    let again = changed(&bundle, &changes, &folder.at("again")).expect("set");
    let metadata = again.llm_metadata().expect("there");
    assert_eq!(metadata.unknown, bundle.llm_metadata().expect("there").unknown);
    assert_eq!((metadata.max_num_tokens, metadata.jinja_prompt_template.as_deref()), (9, Some("t")));
    assert_eq!(again.system_metadata(), bundle.system_metadata());
    assert_eq!(again.sections()[1].kind, SectionKind::Unknown(200));
}

#[test]
fn what_cannot_be_said_is_refused() {
    let folder = Folder::new("refused");
    let bundle = Bundle::open(&fixtures()[0]).expect("sound");
    let cases = [
        (Changes { activation_type: Some("int4".into()), ..Changes::default() }, "fp32, fp16"),
        (Changes { temperature: Some(-1.0), ..Changes::default() }, "temperature"),
        (Changes { temperature: Some(f32::NAN), ..Changes::default() }, "temperature"),
        (Changes { top_p: Some(0.0), ..Changes::default() }, "top-p"),
        (Changes { top_k: Some(0), ..Changes::default() }, "top-k"),
        (Changes { max_num_tokens: Some(-4), ..Changes::default() }, "positions"),
        (Changes { stop_tokens: Some(Vec::new()), ..Changes::default() }, "stop tokens"),
    ];
    for (changes, expected) in cases {
        let error = changed(&bundle, &changes, &folder.at("again")).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let mut bytes = Vec::new();
    Writer::new(Vec::new()).write("empty", &mut bytes, &mut watch_nothing).expect("written");
    let empty = Bundle::from_blob(Blob::from_vec(bytes), "empty").expect("sound");
    for changes in [
        Changes { max_num_tokens: Some(4), ..Changes::default() },
        Changes { activation_type: Some("fp32".into()), ..Changes::default() },
    ] {
        let error = changed(&empty, &changes, &folder.at("again")).expect_err("no such section");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 0);
}

#[test]
fn whoever_watches_can_stop_it() {
    let folder = Folder::new("stop");
    let bundle = Bundle::open(&fixtures()[0]).expect("sound");
    let mut output = Output::create(&folder.at("again"), false).expect("writable");
    let changes = Changes { max_num_tokens: Some(5), ..Changes::default() };
    let error = set(&bundle, &changes, &mut output, &mut |_, _| ControlFlow::Break(())).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    drop(output);
    assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 0);
}

#[test]
fn differences_are_told_section_by_section_and_field_by_field() {
    let folder = Folder::new("diff");
    let bundle = Bundle::open(&fixtures()[0]).expect("sound");
    let same = diff(&bundle, &bundle);
    assert!(same.same && same.system.is_empty());
    assert!(same.sections.iter().all(|section| section.state == State::Same && section.changes.is_empty()));
    let changes = Changes { max_num_tokens: Some(5), items: vec![("a".into(), "b".into())], ..Changes::default() };
    let other = changed(&bundle, &changes, &folder.at("again")).expect("set");
    let comparison = diff(&bundle, &other);
    assert!(!comparison.same);
    assert_eq!((comparison.system.len(), comparison.system[0].what.as_str()), (1, "a"));
    let differing: Vec<_> = comparison.sections.iter().filter(|section| section.state != State::Same).collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(differing[0].changes.len(), 1);
    assert_eq!(differing[0].changes[0].what, "max_num_tokens");
    strange(&folder.at("strange"));
    let comparison = diff(&bundle, &Bundle::open(&folder.at("strange")).expect("sound"));
    let state = |name: &str| comparison.sections.iter().find(|s| s.name == name).expect(name).state;
    assert_eq!(state("TFLiteModel prefill_decode"), State::Removed);
    assert_eq!(state("type 200 2"), State::Added);
    assert_eq!(state("LlmMetadataProto"), State::Changed);
}
