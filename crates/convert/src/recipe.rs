//! Recipes: a name goes in, which kinds of tensors become int8 comes out, as data with a digest; no tensor is touched.

use kinglet_bundle::write::Digest;
use serde::Serialize;

use crate::error::{Error, Result};

/// Kinds of tensors that a recipe tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The embedding, and with it a tied head.
    Embedding,
    /// `q_proj`, `k_proj`, `v_proj`, `o_proj`.
    Attention,
    /// `in_proj_qkv`, `in_proj_z`, `out_proj`.
    DeltaNet,
    /// `in_proj_a`, `in_proj_b`: decay and write strength of the delta rule.
    Gates,
    /// `gate_proj`, `up_proj`, `down_proj`.
    Mlp,
    /// A head of its own.
    Head,
    /// Norms, convolutions, decay rates and biases: never int8.
    Vectors,
}

impl Kind {
    /// All kinds of matrices, those that a recipe may make int8.
    pub const MATRICES: [Kind; 6] =
        [Kind::Embedding, Kind::Attention, Kind::DeltaNet, Kind::Gates, Kind::Mlp, Kind::Head];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Embedding => "embedding",
            Kind::Attention => "attention",
            Kind::DeltaNet => "delta-net",
            Kind::Gates => "gates",
            Kind::Mlp => "mlp",
            Kind::Head => "head",
            Kind::Vectors => "vectors",
        }
    }
}

/// Which tensors become int8, symmetric with one scale per output row; all others are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// What users call it.
    pub name: &'static str,
    /// Goes up when the recipe gives other bytes.
    pub version: u32,
    /// The kinds that become int8.
    pub int8: &'static [Kind],
    /// How linears of int8 weights take their inputs in the official runtime: rounded to int8 per row.
    pub activations: &'static str,
    /// What it is for.
    #[serde(skip)]
    pub purpose: &'static str,
}

/// All recipes, the default first.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "int8",
        version: 1,
        int8: &[Kind::Embedding, Kind::Attention, Kind::DeltaNet, Kind::Mlp, Kind::Head],
        activations: "fp32",
        purpose: "linears and embedding int8, all that decides about the recurrent states float",
    },
    Recipe {
        name: "int8-legacy",
        version: 1,
        int8: &[Kind::Embedding, Kind::Attention, Kind::DeltaNet, Kind::Gates, Kind::Mlp, Kind::Head],
        activations: "fp32",
        purpose: "the gate projections int8 too, to study that known fault of published bundles",
    },
    Recipe { name: "float", version: 1, int8: &[], activations: "fp32", purpose: "everything in single precision" },
];

impl Recipe {
    /// The recipe of that name.
    ///
    /// # Errors
    /// There is none; the message lists those that there are.
    pub fn named(name: &str) -> Result<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
            Error::option(format!("recipe: expected one of {}, found `{name}`", names.join(", ")))
        })
    }

    /// Whether a kind becomes int8.
    pub fn makes_int8(&self, kind: Kind) -> bool {
        self.int8.contains(&kind)
    }

    /// The digest of what it says, as JSON.
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(self).expect("a recipe is plain data").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_recipes_and_others_are_told_them() {
        for recipe in RECIPES {
            assert_eq!(Recipe::named(recipe.name).expect("there"), recipe);
        }
        let text = Recipe::named("int4").expect_err("none").to_string();
        assert_eq!(text, "recipe: expected one of int8, int8-legacy, float, found `int4`");
    }

    #[test]
    fn a_recipe_that_says_something_else_has_another_digest() {
        let all: std::collections::HashSet<String> = RECIPES.iter().map(|r| r.digest().to_string()).collect();
        assert_eq!(all.len(), RECIPES.len());
        let newer = Recipe { version: 2, ..RECIPES[0] };
        assert_ne!(newer.digest(), RECIPES[0].digest());
    }
}
