//! From bytes to a [`Model`]: whatever it accepts needs no further check.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use kinglet_blob::Blob;
use kinglet_flat::{Bytes, Field, Flat, Table, Tables};

use crate::Result;
use crate::buffers::{read_buffers, read_externals};
use crate::error::Inner;
use crate::limits;
use crate::model::{Code, Model, OperatorRecord, Signature, Subgraph};
use crate::operators::{self, COMPOSITE, Kind, LAST_DEPRECATED, Options};
use crate::schema::{self, options};
use crate::tensor::{Data, ElementType, Scales, Shape, Tensor};

impl Model {
    /// Reads a `.tflite` file or section. `external` holds the constants that a model keeps in a companion file.
    ///
    /// Names and constants are not touched, only measured.
    pub fn parse(blob: Blob, external: Option<Blob>) -> Result<Model> {
        let flat = Flat::new(&blob[..blob.len().min(schema::FLATBUFFER_LIMIT)], "Model");
        if flat.identifier() != Some(schema::IDENTIFIER) {
            let found = blob.get(4..8).map_or(format!("{} bytes", blob.len()), |id| format!("`{}`", id.escape_ascii()));
            return Err(Inner::NotTflite { found }.into());
        }
        let root = flat.root()?;
        let version = root.scalar(schema::model::VERSION, 0u32)?;
        if version != schema::VERSION {
            let message = format!("expected schema version {}, found {version}", schema::VERSION);
            return Err(root.field_error(schema::model::VERSION, message).into());
        }
        let subgraphs = limited(root, schema::model::SUBGRAPHS, limits::SUBGRAPHS)?;
        let kinds = limited(root, schema::model::OPERATOR_CODES, limits::ENTRIES)?;
        let mut reader = Reader {
            buffers: read_buffers(root, blob.len() as u64)?,
            externals: read_externals(root, external.as_ref())?,
            kinds: kinds.iter().map(|code| read_code(code?)).collect::<Result<_>>()?,
            subgraph_count: subgraphs.len(),
            tensors: 0,
            operators: 0,
            operands: 0,
        };
        let subgraphs = subgraphs.iter().map(|table| reader.subgraph(table?)).collect::<Result<Vec<_>>>()?;
        let signatures = reader.signatures(root, &subgraphs)?;
        let metadata = reader.metadata(root)?;
        let description = text_range(root.bytes(schema::model::DESCRIPTION, 1)?);
        let kinds = reader.kinds;
        Ok(Model { external, description, kinds, subgraphs, signatures, metadata, blob })
    }
}

/// A vector of tables that is not longer than `most`.
pub(crate) fn limited<'f>(table: Table<'f>, field: Field, most: usize) -> Result<Tables<'f>> {
    let tables = table.tables(field)?;
    if tables.len() > most {
        return Err(table
            .field_error(field, format!("expected at most {most} entries, found {}", tables.len()))
            .into());
    }
    Ok(tables)
}

/// Where a string or vector lies. A FlatBuffer is shorter than 2 GiB, so its places fit 32 bits.
fn text_range(found: Option<Bytes<'_>>) -> Range<u32> {
    found.map_or(0..0, |found| found.start as u32..(found.start as usize + found.bytes.len()) as u32)
}

fn read_code(table: Table<'_>) -> Result<Code> {
    use schema::operator_code::*;
    // Numbers up to 127 used to be a byte; later ones stand in the wider field, the byte then saying 127.
    let narrow = table.scalar(DEPRECATED_BUILTIN, 0i8)?;
    let wide = table.scalar(BUILTIN, 0i32)?;
    let number = i32::from(narrow).max(wide);
    let Ok(number) = u32::try_from(number) else {
        return Err(table.field_error(BUILTIN, format!("expected an operator number, found {number}")).into());
    };
    if number == LAST_DEPRECATED {
        return Err(table.field_error(BUILTIN, "expected an operator number, found the placeholder 127").into());
    }
    let kind = match number {
        operators::CUSTOM => Kind::Custom(table.required_string(CUSTOM)?.to_owned()),
        number => Kind::Builtin(number),
    };
    Ok(Code { kind, version: table.scalar(VERSION, 1i32)? })
}

struct Reader {
    buffers: Vec<Option<Range<u64>>>,
    externals: HashMap<u32, Range<u64>>,
    kinds: Vec<Code>,
    subgraph_count: usize,
    tensors: usize,
    operators: usize,
    operands: usize,
}

impl Reader {
    fn subgraph(&mut self, table: Table<'_>) -> Result<Subgraph> {
        use schema::subgraph::*;
        let tensors = table.tables(TENSORS)?;
        let operators = table.tables(OPERATORS)?;
        count(&mut self.tensors, tensors.len(), limits::TENSORS, table, TENSORS)?;
        count(&mut self.operators, operators.len(), limits::OPERATORS, table, OPERATORS)?;
        let mut subgraph = Subgraph {
            name: table.string(NAME)?.unwrap_or("").to_owned(),
            tensors: tensors.iter().map(|tensor| self.tensor(tensor?)).collect::<Result<_>>()?,
            ..Subgraph::default()
        };
        subgraph.inputs = self.indices(table, INPUTS, tensors.len())?;
        subgraph.outputs = self.indices(table, OUTPUTS, tensors.len())?;
        subgraph.operators.reserve_exact(operators.len());
        for operator in operators.iter() {
            self.operator(operator?, &mut subgraph)?;
        }
        Ok(subgraph)
    }

    fn tensor(&self, table: Table<'_>) -> Result<Tensor> {
        use schema::tensor::*;
        let shape = read_shape(table)?;
        let element = ElementType::from_number(table.scalar(TYPE, 0i8)?);
        let buffer = table.scalar(BUFFER, 0u32)?;
        let Some(place) = self.buffers.get(buffer as usize) else {
            let message = format!("expected a buffer below {}, found {buffer}", self.buffers.len());
            return Err(table.field_error(BUFFER, message).into());
        };
        let id = table.scalar(EXTERNAL, 0u32)?;
        let data = match (id, place) {
            (0, Some(range)) => Data::Inside(range.clone()),
            (0, None) => Data::None,
            (id, _) => match self.externals.get(&id) {
                Some(range) => Data::External(range.clone()),
                None => return Err(table.field_error(EXTERNAL, format!("found no external buffer {id}")).into()),
            },
        };
        if let Data::Inside(range) | Data::External(range) = &data {
            check_size(table, element, &shape, range.end - range.start)?;
        }
        let scales = table.table(QUANTIZATION)?.map(|q| read_scales(q, &shape)).transpose()?.flatten();
        let variable = table.scalar(VARIABLE, false)?;
        let name = text_range(table.bytes(NAME, 1)?);
        Ok(Tensor { shape, element, buffer: buffer as usize, variable, data, name, scales })
    }

    /// Appends an operator and its operands to `subgraph`, whose tensors are already there.
    fn operator(&mut self, table: Table<'_>, subgraph: &mut Subgraph) -> Result<()> {
        use schema::operator::*;
        let code = table.scalar(CODE, 0u32)?;
        let Some(kind) = self.kinds.get(code as usize).map(|code| &code.kind) else {
            let message = format!("expected an operator code below {}, found {code}", self.kinds.len());
            return Err(table.field_error(CODE, message).into());
        };
        let mut attributes = text_range(table.bytes(CUSTOM_OPTIONS, 1)?);
        let mut composite = None;
        if *kind == Kind::Builtin(COMPOSITE) {
            let (kind, range) = self.composite(table)?;
            (composite, attributes) = (Some(Box::new(kind)), range);
        }
        let options = read_options(table)?;
        let inputs = self.operand_range(table, INPUTS, subgraph, -1)?;
        let outputs = self.operand_range(table, OUTPUTS, subgraph, 0)?;
        subgraph.operators.push(OperatorRecord { code, composite, inputs, outputs, options, attributes });
        Ok(())
    }

    fn composite(&self, table: Table<'_>) -> Result<(Kind, Range<u32>)> {
        use schema::composite::*;
        use schema::operator::{OPTIONS_2, OPTIONS_2_TYPE};
        let found = table.scalar(OPTIONS_2_TYPE, 0u8)?;
        if found != options::COMPOSITE {
            let message = format!("expected options {} of a composite, found {found}", options::COMPOSITE);
            return Err(table.field_error(OPTIONS_2_TYPE, message).into());
        }
        let details = table.required_table(OPTIONS_2)?;
        let decomposition = details.scalar(DECOMPOSITION, 0i32)?;
        let Some(decomposition) = usize::try_from(decomposition).ok().filter(|d| *d < self.subgraph_count) else {
            let message = format!("expected a subgraph below {}, found {decomposition}", self.subgraph_count);
            return Err(details.field_error(DECOMPOSITION, message).into());
        };
        let name = details.required_string(NAME)?.to_owned();
        Ok((Kind::Composite { name, decomposition }, text_range(details.bytes(ATTRIBUTES, 1)?)))
    }

    /// Appends the operands in `field` to `subgraph`; each is a tensor of it, or at least `least`.
    fn operand_range(&mut self, table: Table<'_>, field: Field, to: &mut Subgraph, least: i32) -> Result<Range<u32>> {
        let found = table.scalars::<i32>(field)?;
        count(&mut self.operands, found.len(), limits::OPERANDS, table, field)?;
        let start = to.operands.len() as u32;
        for index in found.iter() {
            if index < least || i64::from(index) >= to.tensors.len() as i64 {
                let message = format!("expected a tensor below {}, found {index}", to.tensors.len());
                return Err(table.field_error(field, message).into());
            }
            to.operands.push(index);
        }
        Ok(start..to.operands.len() as u32)
    }

    fn indices(&mut self, table: Table<'_>, field: Field, tensors: usize) -> Result<Vec<usize>> {
        let found = table.scalars::<i32>(field)?;
        count(&mut self.operands, found.len(), limits::OPERANDS, table, field)?;
        let check = |index: i32| match usize::try_from(index) {
            Ok(index) if index < tensors => Ok(index),
            _ => Err(table.field_error(field, format!("expected a tensor below {tensors}, found {index}")).into()),
        };
        found.iter().map(check).collect()
    }

    fn signatures(&mut self, root: Table<'_>, subgraphs: &[Subgraph]) -> Result<Vec<Signature>> {
        use schema::signature::*;
        let tables = limited(root, schema::model::SIGNATURES, limits::ENTRIES)?;
        let mut keys = HashSet::new();
        let mut signatures = Vec::with_capacity(tables.len());
        for table in tables.iter() {
            let table = table?;
            let key = table.string(KEY)?.unwrap_or("");
            if !keys.insert(key) {
                return Err(table.field_error(KEY, format!("found a second signature `{key}`")).into());
            }
            let index = table.scalar(SUBGRAPH, 0u32)? as usize;
            let Some(subgraph) = subgraphs.get(index) else {
                let message = format!("expected a subgraph below {}, found {index}", subgraphs.len());
                return Err(table.field_error(SUBGRAPH, message).into());
            };
            let inputs = self.names(table, INPUTS, subgraph)?;
            let outputs = self.names(table, OUTPUTS, subgraph)?;
            signatures.push(Signature { key: key.to_owned(), subgraph: index, inputs, outputs });
        }
        Ok(signatures)
    }

    fn names(&mut self, signature: Table<'_>, field: Field, subgraph: &Subgraph) -> Result<Vec<(String, usize)>> {
        use schema::tensor_map::*;
        let maps = signature.tables(field)?;
        count(&mut self.operands, maps.len(), limits::OPERANDS, signature, field)?;
        let mut seen = HashSet::new();
        let mut names = Vec::with_capacity(maps.len());
        for map in maps.iter() {
            let map = map?;
            let name = map.required_string(NAME)?;
            if !seen.insert(name) {
                return Err(map.field_error(NAME, format!("found a second `{name}`")).into());
            }
            let tensor = map.scalar(TENSOR, 0u32)? as usize;
            if tensor >= subgraph.tensors.len() {
                let message = format!("expected a tensor below {}, found {tensor}", subgraph.tensors.len());
                return Err(map.field_error(TENSOR, message).into());
            }
            names.push((name.to_owned(), tensor));
        }
        Ok(names)
    }

    fn metadata(&self, root: Table<'_>) -> Result<Vec<(String, Range<u64>)>> {
        use schema::metadata::*;
        let entry = |table: Table<'_>| {
            let buffer = table.scalar(BUFFER, 0u32)?;
            let Some(place) = self.buffers.get(buffer as usize) else {
                let message = format!("expected a buffer below {}, found {buffer}", self.buffers.len());
                return Err(table.field_error(BUFFER, message).into());
            };
            Ok((table.string(NAME)?.unwrap_or("").to_owned(), place.clone().unwrap_or(0..0)))
        };
        limited(root, schema::model::METADATA, limits::ENTRIES)?.iter().map(|table| entry(table?)).collect()
    }
}

/// Adds `more` to a total that has a limit.
fn count(total: &mut usize, more: usize, most: usize, table: Table<'_>, field: Field) -> Result<()> {
    *total = total.saturating_add(more);
    if *total > most {
        return Err(table.field_error(field, format!("expected at most {most} in the whole model")).into());
    }
    Ok(())
}

fn read_shape(table: Table<'_>) -> Result<Shape> {
    let field = schema::tensor::SHAPE;
    let dimensions = table.scalars::<i32>(field)?;
    if let Some(bad) = dimensions.iter().find(|d| *d < 0) {
        return Err(table.field_error(field, format!("expected dimensions of 0 or more, found {bad}")).into());
    }
    Shape::new(dimensions.iter().map(i32::unsigned_abs)).ok_or_else(|| {
        let message = format!("expected at most {} dimensions whose product fits 64 bits", limits::RANK);
        table.field_error(field, message).into()
    })
}

/// A constant has exactly the bytes that its shape and type need.
fn check_size(table: Table<'_>, element: ElementType, shape: &Shape, found: u64) -> Result<()> {
    if table.has(schema::tensor::SPARSITY)? {
        return Err(table.field_error(schema::tensor::SPARSITY, "sparse constants are not read").into());
    }
    let Some(bits) = element.bits() else {
        return Ok(());
    };
    let expected = (shape.elements() * bits).div_ceil(8);
    if expected != found {
        let message = format!("expected {expected} bytes for {element}{shape}, found {found}");
        return Err(table.field_error(schema::tensor::BUFFER, message).into());
    }
    Ok(())
}

/// Where scales and zero points lie; their numbers agree with the shape.
fn read_scales(table: Table<'_>, shape: &Shape) -> Result<Option<Scales>> {
    use schema::quantization::*;
    let details = table.scalar(DETAILS, 0u8)?;
    let (scales, zero_points) = (table.bytes(SCALE, 4)?, table.bytes(ZERO_POINT, 8)?);
    let scale_count = scales.map_or(0, |found| found.bytes.len() / 4);
    let zero_count = zero_points.map_or(0, |found| found.bytes.len() / 8);
    if details != 0 {
        return Err(table
            .field_error(DETAILS, format!("expected affine scales, found details of type {details}"))
            .into());
    }
    if scale_count == 0 {
        return Ok(None);
    }
    let dimension = table.scalar(DIMENSION, 0i32)?;
    let along = usize::try_from(dimension).ok().and_then(|d| shape.get(d)).map(|length| *length as usize);
    if scale_count > 1 && along != Some(scale_count) {
        let message =
            format!("expected one scale for each index of dimension {dimension} of {shape}, found {scale_count}");
        return Err(table.field_error(SCALE, message).into());
    }
    if zero_count > 1 && zero_count != scale_count {
        let message = format!("expected {scale_count} zero points, found {zero_count}");
        return Err(table.field_error(ZERO_POINT, message).into());
    }
    let dimension = u32::try_from(dimension).unwrap_or(0);
    Ok(Some(Scales { scales: text_range(scales), zero_points: text_range(zero_points), dimension }))
}

fn read_options(table: Table<'_>) -> Result<Options> {
    use schema::operator::{OPTIONS, OPTIONS_TYPE};
    let number = table.scalar(OPTIONS_TYPE, 0u8)?;
    if !matches!(number, options::FULLY_CONNECTED | options::DEPTHWISE_CONV | options::BATCH_MATMUL) {
        return Ok(Options::Unread);
    }
    let details = table.required_table(OPTIONS)?;
    Ok(match number {
        options::FULLY_CONNECTED => {
            use schema::fully_connected::*;
            Options::FullyConnected {
                activation: details.scalar(ACTIVATION, 0i8)? != 0,
                plain_weights: details.scalar(WEIGHTS_FORMAT, 0i8)? == 0,
            }
        }
        options::DEPTHWISE_CONV => {
            use schema::depthwise_conv::*;
            Options::DepthwiseConv {
                valid_padding: details.scalar(PADDING, 0i8)? == 1,
                multiplier: details.scalar(MULTIPLIER, 0i32)?,
                activation: details.scalar(ACTIVATION, 0i8)? != 0,
            }
        }
        _ => {
            use schema::batch_matmul::*;
            Options::BatchMatmul {
                adjoint_x: details.scalar(ADJOINT_X, false)?,
                adjoint_y: details.scalar(ADJOINT_Y, false)?,
            }
        }
    })
}
