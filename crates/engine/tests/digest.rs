//! One answer across processors: a digest of logits that was written down once and must come out everywhere, under
//! emulation too.

mod support;

use kinglet_engine::{Options, Want};
use kinglet_model::source::Precision;
use support::{engine, load};

/// FNV-1a over the bits of the logits at every position of the ids `1, 8, 15, ...`.
fn digest(path: &str, precision: Precision, options: &Options) -> u64 {
    let model = load(path, precision);
    let ids: Vec<u32> = (0..20).map(|i| (1 + 7 * i) % model.plan.vocab as u32).collect();
    let mut engine = engine(&model, options);
    let mut session = engine.session(ids.len());
    let mut logits = vec![0.0f32; ids.len() * model.plan.vocab];
    engine.advance(&mut session, &ids, Want::Every(&mut logits)).expect("fits");
    logits
        .iter()
        .flat_map(|v| v.to_bits().to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn logits_have_the_same_bits_on_every_processor() {
    let cases = [
        ("models/demo", Precision::Int8, 0xe823_1890_0564_5776u64),
        ("fixtures/golden/ckpt/text-ratio2", Precision::Int8, 0x8fa0_fd29_8df6_5d43),
        ("fixtures/golden/ckpt/text-ratio2", Precision::Stored, 0xf48f_4d94_34d0_f5b6),
        ("fixtures/bundles/tiny4b/tiny4b_wi8fc.litertlm", Precision::Int8, 0x2e0a_a18d_8b1c_2d66),
    ];
    for kernels in kinglet_kernels::available() {
        for (path, precision, expected) in cases {
            let found = digest(path, precision, &Options { kernels, ..Options::new(2) });
            assert_eq!(found, expected, "{path}, {precision:?}, {}: {found:#018x}", kernels.name);
        }
    }
}
