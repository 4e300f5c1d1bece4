//! PAD along other axes than the last.

use kinglet_tflite::{ElementType, Tensor};

use super::Rule;
use crate::op;
use crate::report::Severity::{Fault, Warning};
use crate::subject::Site;

/// PAD of something else than the last axis.
pub(super) const PAD_AXIS: Rule = Rule {
    id: "pad-axis",
    meaning: "GPU backends pad the last axis only: a tensor of rank 3 padded along another comes out shifted by a row, \
              silently",
    hint: Some("CONCATENATE zeros instead"),
    check: |subject, sink| {
        for site in subject.sites().filter(|site| site.is_any(&[op::PAD, op::PADV2, op::MIRROR_PAD])) {
            let spot = site.spot().tensor(site.operator.input(0));
            let rank = site.input(0).map_or(0, |tensor| tensor.shape.len());
            match padded(&site) {
                Some(axes) => {
                    let Some(axis) = axes.iter().position(|padded| *padded).filter(|axis| axis + 1 < rank) else {
                        continue;
                    };
                    let severity = if rank == 3 { Fault } else { Warning };
                    sink.on_gpu(severity, spot, || format!("{} pads axis {axis} of {rank}", site.name()));
                }
                None => sink.on_gpu(Warning, spot, || format!("{} pads by amounts that are computed", site.name())),
            }
        }
    },
};

/// Which axes a PAD widens; `None` where its amounts are not constant.
fn padded(site: &Site<'_>) -> Option<Vec<bool>> {
    let amounts = integers(site, site.input(1)?)?;
    Some(amounts.chunks(2).map(|pair| pair.iter().any(|amount| *amount != 0)).collect())
}

/// The values of a small integer constant.
fn integers(site: &Site<'_>, tensor: &Tensor) -> Option<Vec<i64>> {
    let data = site.part.model.data(tensor).filter(|data| data.len() <= 1024)?;
    match tensor.element {
        ElementType::I32 => {
            Some(data.chunks_exact(4).map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect())
        }
        ElementType::I64 => {
            Some(data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("chunks of eight"))).collect())
        }
        _ => None,
    }
}
