//! Damaged checkpoints end in an error, never in a panic.

use std::path::{Path, PathBuf};

use kinglet_checkpoint::{Checkpoint, Config};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("kinglet-checkpoint-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("scratch");
    dir
}

#[test]
fn all_golden_checkpoints_open() {
    for name in ["text-ratio1", "text-ratio2", "text-untied-8layer", "vl-ratio1", "vl-ratio2-sharded"] {
        let checkpoint = Checkpoint::open(&root().join("fixtures/golden/ckpt").join(name)).expect(name);
        assert_eq!(checkpoint.layout().ignored.visual > 0, name.starts_with("vl"), "{name}");
    }
}

#[test]
fn damaged_headers_and_configs_never_panic() {
    let source = root().join("fixtures/golden/ckpt/text-ratio2");
    let weights = std::fs::read(source.join("model.safetensors")).expect("weights");
    let config = std::fs::read(source.join("config.json")).expect("config");
    let header = 8 + u64::from_le_bytes(weights[..8].try_into().expect("eight")) as usize;
    let dir = scratch("mutations");
    std::fs::write(dir.join("config.json"), &config).expect("config");
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for round in 0..1500 {
        let mut damaged = weights[..header + 64].to_vec();
        for _ in 0..1 + next() % 4 {
            let at = next() % header;
            damaged[at] = next() as u8;
        }
        if round % 3 == 0 {
            damaged.truncate(next() % damaged.len());
        }
        std::fs::write(dir.join("model.safetensors"), &damaged).expect("weights");
        assert!(Checkpoint::open(&dir).is_err(), "the tensors are cut off");
        let mut text = config.clone();
        let at = next() % text.len();
        text[at] = next() as u8;
        let _ = Config::parse(&text);
    }
    std::fs::remove_dir_all(dir).expect("clean up");
}

#[test]
fn an_index_cannot_leave_the_directory() {
    let dir = scratch("escape");
    std::fs::copy(root().join("fixtures/golden/ckpt/text-ratio2/config.json"), dir.join("config.json")).expect("copy");
    for bad in ["../x.safetensors", "/etc/passwd", "", ".."] {
        let index = format!(r#"{{"weight_map":{{"a":"{bad}"}}}}"#);
        std::fs::write(dir.join("model.safetensors.index.json"), index).expect("index");
        assert!(Checkpoint::open(&dir).expect_err(bad).to_string().contains("plain file name"));
    }
    std::fs::remove_dir_all(dir).expect("clean up");
}

#[test]
fn a_pointer_and_an_empty_directory_get_a_hint() {
    let dir = scratch("pointer");
    assert!(Checkpoint::open(&dir).expect_err("empty").hint().expect("hint").contains("config.json"));
    std::fs::copy(root().join("fixtures/golden/ckpt/text-ratio2/config.json"), dir.join("config.json")).expect("copy");
    std::fs::write(dir.join("model.safetensors"), "version https://git-lfs.github.com/spec/v1\n").expect("pointer");
    assert!(Checkpoint::open(&dir).expect_err("pointer").hint().expect("hint").contains("git lfs pull"));
    std::fs::remove_dir_all(dir).expect("clean up");
}
